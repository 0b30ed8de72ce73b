using System.Runtime.CompilerServices;
using EdgeProf;

internal static class Small
{
    [ModuleInitializer]
    internal static void Start()
    {
        if (!string.IsNullOrEmpty(Environment.GetEnvironmentVariable("EDGEPROF_ENDPOINT")))
            Profiler.Start(new ProfilerOptions { MemoryBytes = 64 << 10 });
    }
}
