// Runs tests of one suite in sequence, like MSTest: a class is initialised before its first test, each
// test has its own instance, and classes are cleaned up at the end.
//   WptsHost SUITE.dll list
//   WptsHost SUITE.dll CONFIGURATION-FOLDER OUTCOMES SECONDS TEST...
// A line of OUTCOMES is a test's name, `passed`, `failed` or `inapplicable`, milliseconds, and the
// reason. The exit status is 3 after a hung test: its thread cannot be ended, so another process has to
// run the remaining tests.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Reflection;
using System.Runtime.ExceptionServices;
using System.Threading;
using Microsoft.VisualStudio.TestTools.UnitTesting;

public static class Runner
{
    const int TimedOut = 3;
    const BindingFlags Declared = BindingFlags.Public | BindingFlags.NonPublic | BindingFlags.Instance
        | BindingFlags.Static | BindingFlags.DeclaredOnly;

    sealed class Outcome
    {
        public string Result = "failed";
        public string Reason = "no end in its time";
    }

    public static int Main(string[] arguments)
    {
        var suite = Assembly.LoadFrom(Path.GetFullPath(arguments[0]));
        var classes = suite.GetTypes().Where(t => t.IsClass && !t.IsAbstract).OrderBy(t => t.FullName).ToList();
        if (arguments[1] == "list")
        {
            foreach (var test in classes.SelectMany(TestsOf)) Console.WriteLine(test.Name);
            return 0;
        }
        var wanted = new HashSet<string>(arguments.Skip(4));
        using (var outcomes = new StreamWriter(arguments[2], true) { AutoFlush = true })
        {
            var cleanups = new List<MethodInfo>();
            foreach (var type in classes)
            {
                var tests = TestsOf(type).Where(m => wanted.Contains(m.Name)).OrderBy(m => m.Name).ToList();
                if (tests.Count == 0) continue;
                var context = new TestContext { FullyQualifiedTestClassName = type.FullName };
                context.Properties["PtfconfigDirectory"] = arguments[1];
                if (!RunClass(type, tests, context, int.Parse(arguments[3]), outcomes)) Environment.Exit(TimedOut);
                cleanups.AddRange(Marked<ClassCleanupAttribute>(type));
            }
            foreach (var cleanup in cleanups) Attempt(() => Call(cleanup, null));
        }
        // Threads of the suite may still run.
        Environment.Exit(0);
        return 0;
    }

    static IEnumerable<MethodInfo> TestsOf(Type type) =>
        type.GetMethods().Where(m => m.GetCustomAttributes(typeof(TestMethodAttribute), false).Length > 0);

    // Methods with the attribute, in base classes first.
    static List<MethodInfo> Marked<T>(Type type) where T : Attribute
    {
        var chain = new List<Type>();
        for (var t = type; t != null && t != typeof(object); t = t.BaseType) chain.Insert(0, t);
        return chain.SelectMany(t => t.GetMethods(Declared))
            .Where(m => m.GetCustomAttributes(typeof(T), false).Length > 0).ToList();
    }

    static void Call(MethodInfo method, object target, params object[] values)
    {
        try { method.Invoke(target, method.GetParameters().Length == 0 ? null : values); }
        catch (TargetInvocationException e) { ExceptionDispatchInfo.Capture(e.InnerException).Throw(); }
    }

    static Exception Attempt(Action action)
    {
        try { action(); return null; }
        catch (Exception e)
        {
            while (e is TargetInvocationException && e.InnerException != null) e = e.InnerException;
            Console.WriteLine(e);
            return e;
        }
    }

    static bool RunClass(Type type, List<MethodInfo> tests, TestContext context, int seconds, TextWriter outcomes)
    {
        var refusal = Attempt(() => Marked<ClassInitializeAttribute>(type).ForEach(m => Call(m, null, context)));
        foreach (var test in tests)
        {
            Console.WriteLine("=== " + test.Name);
            var outcome = new Outcome();
            var watch = Stopwatch.StartNew();
            bool isDone = true;
            if (refusal != null) outcome.Reason = "the class is not initialised: " + refusal.Message;
            else
            {
                var thread = new Thread(() => Run(type, test, context, outcome)) { IsBackground = true };
                thread.Start();
                isDone = thread.Join(seconds * 1000);
            }
            var reason = outcome.Reason.Replace('\n', ' ').Replace('\r', ' ').Replace('\t', ' ');
            outcomes.WriteLine(string.Join("\t", test.Name, outcome.Result, watch.ElapsedMilliseconds, reason));
            if (!isDone) return false;
        }
        return true;
    }

    static void Run(Type type, MethodInfo test, TestContext context, Outcome outcome)
    {
        context.TestName = test.Name;
        context.CurrentTestOutcome = UnitTestOutcome.InProgress;
        object instance = null;
        var failure = Attempt(() =>
        {
            instance = Activator.CreateInstance(type);
            type.GetProperty("TestContext")?.SetValue(instance, context);
            Marked<TestInitializeAttribute>(type).ForEach(m => Call(m, instance));
            Call(test, instance);
        });
        context.CurrentTestOutcome = failure == null ? UnitTestOutcome.Passed
            : failure is AssertInconclusiveException ? UnitTestOutcome.Inconclusive : UnitTestOutcome.Failed;
        if (instance != null)
        {
            foreach (var cleanup in Marked<TestCleanupAttribute>(type).AsEnumerable().Reverse())
            {
                var left = Attempt(() => Call(cleanup, instance));
                failure = failure ?? left;
            }
        }
        outcome.Reason = failure == null ? "" : failure.GetType().Name + ": " + failure.Message;
        outcome.Result = failure == null ? "passed" : failure is AssertInconclusiveException ? "inapplicable" : "failed";
    }
}
