// A service that publishes OpenTelemetry's contexts, if EDGEPROF_OTEL_CONTEXT says so. It says where it is and waits for a
// line on standard input: in a span, in one within it, after an await, and in none.
using System.Diagnostics;
using System.Runtime.InteropServices;
using EdgeProf;

internal static class Published
{
    private static readonly ActivitySource Source = new("Test.Published");

    [DllImport("libc", EntryPoint = "gettid")]
    private static extern int ThreadId();

    public static async Task<int> RunAsync()
    {
        var options = new ProfilerOptions { Service = "published" };
        options.SpanSources.Add("Test.*");
        Profiler.Start(options);
        await SpansAsync();
        Profiler.Stop(TimeSpan.FromSeconds(1));
        return 0;
    }

    private static async Task SpansAsync()
    {
        Say("none");
        using (var request = Source.StartActivity("request"))
        using (Profiler.Tag("step", "one"))
        {
            Say("request");
            using (Source.StartActivity("inner"))
                Say("inner");
            await Task.Run(() => Say("elsewhere"));
            Say("after");
        }
        Say("none");
    }

    private static void Say(string where)
    {
        var span = Activity.Current;
        Console.WriteLine($"{where} {Environment.ProcessId} {ThreadId()} {span?.TraceId} {span?.SpanId}");
        Console.ReadLine();
    }
}
