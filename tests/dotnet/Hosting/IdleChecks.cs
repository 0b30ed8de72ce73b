using EdgeProf;

/// <summary>A service without work waits nowhere: its threads are idle. What a request waits for counts.</summary>
internal static class IdleChecks
{
    private const int IdleMs = 3000, WaitMs = 600;

    public static async Task RunAsync(Checks checks, string directory)
    {
        var builder = WebApplication.CreateSlimBuilder();
        builder.WebHost.UseUrls("http://127.0.0.1:0");
        builder.Services.AddEdgeProf(options =>
            (options.Endpoint, options.Kinds, options.AllEvents) = ($"file://{directory}/idle.profile", ProfileKinds.Wait, true));
        await using var app = builder.Build();
        app.MapGet("/wait", static () => Worker.Wait());
        await app.StartAsync();
        await Task.Delay(IdleMs);
        var idle = Waited();
        using var client = new HttpClient { BaseAddress = new Uri(app.Urls.First()) };
        await client.GetStringAsync("/wait");
        var busy = Waited() - idle;
        await app.StopAsync();
        checks.That(idle < IdleMs / 10, $"a service that does nothing for {IdleMs} ms waits {idle} ms");
        checks.That(busy is > WaitMs * 8 / 10 and < WaitMs * 2, $"a request that waits {WaitMs} ms for a task waits {busy} ms");
    }

    /// <summary>In ms.</summary>
    private static long Waited()
    {
        Profiler.Flush();
        Thread.Sleep(300); // counts with the request's
        return Profiler.GetStats().Kinds.FirstOrDefault(static kind => kind.Kind == ProfileKinds.Wait).Value / 1_000_000;
    }

    private static class Worker
    {
        public static string Wait()
        {
            Task.Delay(WaitMs).Wait();
            return "done";
        }
    }
}
