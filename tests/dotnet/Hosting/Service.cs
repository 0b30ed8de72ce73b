using System.Diagnostics;
using System.Runtime.CompilerServices;

/// <summary>The SDK's template of a web service, with AddEdgeProf() and a hosted service that uses CPU time while it stops.</summary>
internal static class Service
{
    public static void Run()
    {
        var builder = WebApplication.CreateBuilder();
        builder.Services.AddHostedService<SlowStop>();
        if (Environment.GetEnvironmentVariable("PLAIN") is null)
            builder.Services.AddEdgeProf();
        var app = builder.Build();
        app.MapGet("/", () => "Hello World!");
        app.Run();
    }
}

internal sealed class SlowStop : IHostedService
{
    private static double sink;

    public Task StartAsync(CancellationToken token) => Task.CompletedTask;

    public Task StopAsync(CancellationToken token)
    {
        Goodbye(TimeSpan.FromMilliseconds(int.Parse(Environment.GetEnvironmentVariable("BURN_MS")!)));
        return Task.CompletedTask;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Goodbye(TimeSpan time)
    {
        using var self = Process.GetCurrentProcess();
        var end = self.TotalProcessorTime + time;
        for (; self.TotalProcessorTime < end; self.Refresh())
            for (var i = 1; i < 200_000; i++)
                sink += Math.Sqrt(i);
    }
}
