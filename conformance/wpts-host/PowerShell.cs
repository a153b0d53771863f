// Replaces the proxy of adapters that are PowerShell scripts, because the lane has no PowerShell.
using System;

namespace Microsoft.Protocols.TestTools
{
    internal static class PowerShellAdapterProxy
    {
        public static T Wrap<T>(string directory, Type type) where T : IAdapter =>
            throw new NotSupportedException("there is no PowerShell here");
    }
}
