// Replaces the parts of MSTest's framework that the suites and their framework use.
using System;
using System.Collections;
using System.Collections.Generic;

namespace Microsoft.VisualStudio.TestTools.UnitTesting
{
    [AttributeUsage(AttributeTargets.Class)] public class TestClassAttribute : Attribute { }
    [AttributeUsage(AttributeTargets.Method)] public class TestMethodAttribute : Attribute { public TestMethodAttribute() { } public TestMethodAttribute(string name) { } }
    [AttributeUsage(AttributeTargets.Method)] public class TestInitializeAttribute : Attribute { }
    [AttributeUsage(AttributeTargets.Method)] public class TestCleanupAttribute : Attribute { }
    [AttributeUsage(AttributeTargets.Method)] public class ClassInitializeAttribute : Attribute { }
    [AttributeUsage(AttributeTargets.Method)] public class ClassCleanupAttribute : Attribute { }
    [AttributeUsage(AttributeTargets.Method)] public class AssemblyInitializeAttribute : Attribute { }
    [AttributeUsage(AttributeTargets.Method)] public class AssemblyCleanupAttribute : Attribute { }
    [AttributeUsage(AttributeTargets.Method | AttributeTargets.Class)] public class IgnoreAttribute : Attribute { public IgnoreAttribute() { } public IgnoreAttribute(string why) { } }
    [AttributeUsage(AttributeTargets.Method | AttributeTargets.Class, AllowMultiple = true)]
    public class TestCategoryAttribute : Attribute
    {
        public TestCategoryAttribute(string category) { TestCategories = new List<string> { category }; }
        public IList<string> TestCategories { get; }
    }
    [AttributeUsage(AttributeTargets.Method)] public class DescriptionAttribute : Attribute { public DescriptionAttribute(string text) { Description = text; } public string Description { get; } }
    [AttributeUsage(AttributeTargets.Method)] public class PriorityAttribute : Attribute { public PriorityAttribute(int value) { } }
    [AttributeUsage(AttributeTargets.Method)] public class OwnerAttribute : Attribute { public OwnerAttribute(string value) { } }
    [AttributeUsage(AttributeTargets.Method)] public class TimeoutAttribute : Attribute { public TimeoutAttribute(int value) { Timeout = value; } public int Timeout { get; } }
    [AttributeUsage(AttributeTargets.Method)] public class DataRowAttribute : Attribute { public DataRowAttribute(params object[] values) { } }
    [AttributeUsage(AttributeTargets.Method | AttributeTargets.Class, AllowMultiple = true)] public class DeploymentItemAttribute : Attribute { public DeploymentItemAttribute(string path) { } public DeploymentItemAttribute(string path, string to) { } }

    public enum UnitTestOutcome { Failed, Inconclusive, Passed, InProgress, Error, Timeout, Aborted, Unknown }

    public class UnitTestAssertException : Exception
    {
        public UnitTestAssertException(string message) : base(message) { }
        public UnitTestAssertException(string message, Exception inner) : base(message, inner) { }
    }
    public class AssertFailedException : UnitTestAssertException
    {
        public AssertFailedException(string message) : base(message) { }
        public AssertFailedException(string message, Exception inner) : base(message, inner) { }
    }
    public class AssertInconclusiveException : UnitTestAssertException
    {
        public AssertInconclusiveException(string message) : base(message) { }
        public AssertInconclusiveException(string message, Exception inner) : base(message, inner) { }
    }

    public class TestContext
    {
        public IDictionary Properties { get; } = new Dictionary<string, object>();
        public string FullyQualifiedTestClassName { get; set; }
        public string TestName { get; set; }
        public UnitTestOutcome CurrentTestOutcome { get; set; }
        public void WriteLine(string text) { Console.WriteLine(text); }
        public void WriteLine(string text, params object[] values) { Console.WriteLine(text, values); }
    }

    public sealed class Assert
    {
        static string Format(string message, object[] values) => values == null || values.Length == 0 ? message : string.Format(message, values);
        public static void Fail(string message = "", params object[] values) => throw new AssertFailedException(Format(message, values));
        public static void Inconclusive(string message = "", params object[] values) => throw new AssertInconclusiveException(Format(message, values));
        public static void IsTrue(bool condition, string message = "", params object[] values) { if (!condition) Fail(message, values); }
        public static void IsFalse(bool condition, string message = "", params object[] values) { if (condition) Fail(message, values); }
        public static void IsNull(object value, string message = "", params object[] values) { if (value != null) Fail(message, values); }
        public static void IsNotNull(object value, string message = "", params object[] values) { if (value == null) Fail(message, values); }
        public static void AreEqual<T>(T expected, T actual, string message = "", params object[] values) { if (!EqualityComparer<T>.Default.Equals(expected, actual)) Fail("expected " + expected + ", actual " + actual + ": " + message, values); }
        public static void AreNotEqual<T>(T expected, T actual, string message = "", params object[] values) { if (EqualityComparer<T>.Default.Equals(expected, actual)) Fail("not expected " + expected + ": " + message, values); }
    }
}

namespace System.Runtime.Versioning
{
    [AttributeUsage(AttributeTargets.All)] public class RequiresPreviewFeaturesAttribute : Attribute { public RequiresPreviewFeaturesAttribute() { } public RequiresPreviewFeaturesAttribute(string text) { } }
}

namespace System.Diagnostics
{
    public static class ProcessExtensions
    {
        public static System.Threading.Tasks.Task WaitForExitAsync(this Process process) => System.Threading.Tasks.Task.Run(() => process.WaitForExit());
    }
}
