using System.Diagnostics;
using EdgeProf;
using Microsoft.Extensions.Diagnostics.HealthChecks;

/// <summary>The profiler in a host: order, log and health check.</summary>
internal sealed class HostChecks(Checks checks, string directory)
{
    public async Task RunAsync()
    {
        await OrderAsync();
        await FileAsync();
        await AwayAsync();
        await StoppedAsync();
        await IdleAsync();
        await FailsAsync();
        await OtherFailsAsync();
    }

    public static async Task JitAsync(Checks checks)
    {
        var lines = new Lines();
        var builder = Hosts.Builder(lines, ("Endpoint", "http://127.0.0.1:9"));
        var status = await RunAsync(builder, static () => Task.CompletedTask);
        checks.That(status is HealthStatus.Healthy && lines.All is [var only] && only.Contains("NativeAOT")
            && only == $"Information: not started: not profiled (JIT): {Profiler.UnsupportedReason}", $"jit: the host runs, the log has: {string.Join(" | ", lines.All)}");
    }

    /// <summary>The environment has started a profiler before Main, and the configuration wants none.</summary>
    public static async Task DisabledAsync(Checks checks)
    {
        var lines = new Lines();
        var before = Profiler.IsRunning;
        var inside = true;
        var status = await RunAsync(Hosts.Builder(lines, ("Enabled", "false")), () =>
        {
            inside = Profiler.IsRunning;
            return Task.CompletedTask;
        });
        checks.That(before && !inside, $"the profiler runs before the host: {before}; inside: {inside}");
        checks.That(status == HealthStatus.Healthy && lines.All is ["Information: stopped: EdgeProf:Enabled is false"],
            $"disabled after an automatic start: {status}, {string.Join(" | ", lines.All)}");
    }

    /// <summary>Runs a host with the profiler and its health check, and returns the last status before its end.</summary>
    private static async Task<HealthStatus> RunAsync(HostApplicationBuilder builder, Func<Task> inside)
    {
        builder.Services.AddEdgeProf();
        builder.Services.AddHealthChecks().AddEdgeProf();
        using var host = builder.Build();
        await host.StartAsync();
        await inside();
        var report = await host.Services.GetRequiredService<HealthCheckService>().CheckHealthAsync();
        await host.StopAsync();
        return report.Status;
    }

    private async Task OrderAsync()
    {
        var builder = Hosts.Builder(new Lines(), ("Endpoint", $"file://{directory}/order.profile"));
        var before = new Witness();
        builder.Services.AddSingleton<IHostedService>(before);
        builder.Services.AddEdgeProf().AddEdgeProf();
        var after = new Witness();
        builder.Services.AddSingleton<IHostedService>(after);
        using var host = builder.Build();
        await host.StartAsync();
        await host.StopAsync();
        checks.That(before.Seen == "++++++", $"a service that was added before sees the profiler from its start to its end: {before.Seen}");
        checks.That(after.Seen == before.Seen, $"one that was added later, too: {after.Seen}");
        checks.That(!Profiler.IsRunning, "with the host the profiler ends");
    }

    private async Task FileAsync()
    {
        var lines = new Lines();
        var path = $"{directory}/host.profile";
        var builder = Hosts.Builder(lines, ("Endpoint", $"file://{path}"), ("Level", "Medium"), ("Interval", "00:00:00.2"),
            ("ShutdownTimeout", "00:00:20"));
        var status = await RunAsync(builder, async () =>
        {
            Work.For(300);
            await Work.UntilAsync(() => Task.FromResult(Profiler.GetStats().Delivered > 0));
        });
        checks.That(status == HealthStatus.Healthy, $"with a file it is {status}");
        checks.That(lines.All is [var first, var last] && first == $"Information: profiling at level Medium; profiles go to file://{path}"
            && last.StartsWith("Information: stopped: ") && last.Contains(" 0 samples lost"), $"the log: {string.Join(" | ", lines.All)}");
        checks.That(new FileInfo(path).Length > 0, "the profile is in the file");
    }

    private async Task AwayAsync()
    {
        var lines = new Lines();
        var builder = Hosts.Builder(lines, ("Endpoint", "http://127.0.0.1:9/prefix"), ("Interval", "00:00:00.1"), ("Headers:Authorization", "Bearer secret"));
        builder.Services.AddEdgeProf();
        builder.Services.AddHealthChecks().AddEdgeProf();
        using var host = builder.Build();
        await host.StartAsync();
        var health = host.Services.GetRequiredService<HealthCheckService>();
        HealthReportEntry entry = default;
        checks.That(await Work.UntilAsync(async () =>
        {
            Work.For(20);
            entry = (await health.CheckHealthAsync()).Entries["edgeprof"];
            return entry.Status == HealthStatus.Degraded && lines.Count("do not reach") > 0;
        }), $"without a server it is degraded, and the log says so: {entry.Description}");
        for (var i = 0; i < 5; i++)
            await health.CheckHealthAsync();
        checks.That(lines.Count("do not reach") == 1, "once");
        checks.That(entry.Data is { } data && data["delivered"] is 0L && data["lost"] is long && data["cost"] is double,
            $"its data: {string.Join(", ", entry.Data?.Select(pair => $"{pair.Key}={pair.Value}") ?? [])}");
        var watch = Stopwatch.StartNew();
        await host.StopAsync();
        checks.That(lines.Count("was not delivered within 00:00:00.05") == 1 && lines.Count("samples lost: stopped") == 1,
            $"stopped after {watch.ElapsedMilliseconds} ms: {string.Join(" | ", lines.All)}");
        checks.That(lines.Count("secret") == 0, "no line has the token");
    }

    /// <summary>The program itself has stopped the profiler, and all was delivered.</summary>
    private async Task StoppedAsync()
    {
        var lines = new Lines();
        var complete = false;
        await RunAsync(Hosts.Builder(lines, ("Endpoint", $"file://{directory}/stopped.profile")), () =>
        {
            complete = Profiler.Stop(TimeSpan.FromSeconds(20));
            return Task.CompletedTask;
        });
        checks.That(complete && lines.Count("was not delivered") == 0, $"stopped by the program: {string.Join(" | ", lines.All)}");
    }

    private async Task IdleAsync()
    {
        var lines = new Lines();
        var status = await RunAsync(Hosts.Builder(lines, ("Enabled", "false"), ("Endpoint", "http://127.0.0.1:9")), NotRunningAsync);
        checks.That(status == HealthStatus.Healthy && lines.All is ["Information: not started: EdgeProf:Enabled is false"],
            $"disabled: {status}, {string.Join(" | ", lines.All)}");
        lines = new Lines();
        status = await RunAsync(Hosts.Builder(lines), NotRunningAsync);
        checks.That(status == HealthStatus.Healthy && lines.All is ["Information: not started: EdgeProf:Endpoint is not set"],
            $"without an endpoint: {status}, {string.Join(" | ", lines.All)}");
    }

    private Task NotRunningAsync()
    {
        checks.That(!Profiler.IsRunning, "the profiler does not run");
        return Task.CompletedTask;
    }

    /// <summary>What only the start can see does not end the host.</summary>
    private async Task FailsAsync()
    {
        var lines = new Lines();
        var status = await RunAsync(Hosts.Builder(lines, ("Endpoint", "http://192.0.2.1:9"), ("Headers:Authorization", "Bearer secret"),
            ("Pull", "0.0.0.0:1")), NotRunningAsync);
        checks.That(status == HealthStatus.Degraded && lines.All.Count(static line => line.StartsWith("Error: not started: ") && line.Contains("pull endpoint")) == 1,
            $"a bad pull endpoint: {status}, {string.Join(" | ", lines.All)}");
        checks.That(lines.Count("Warning: the token goes unencrypted") == 1, "what the failed start has said before is in the log, too");
        checks.That(Profiler.TakeNotice() is null, "nothing is left for the next start");
    }

    private async Task OtherFailsAsync()
    {
        var builder = Hosts.Builder(new Lines(), ("Endpoint", $"file://{directory}/other.profile"));
        builder.Services.AddEdgeProf();
        builder.Services.AddHostedService<Broken>();
        var started = false;
        using (var host = builder.Build())
        {
            try
            {
                await host.StartAsync();
            }
            catch (InvalidDataException)
            {
                started = Profiler.IsRunning;
            }
        }
        checks.That(started && !Profiler.IsRunning, "after a failed start of the host no profiler is left");
    }

    private sealed class Broken : BackgroundService
    {
        public override Task StartAsync(CancellationToken cancellationToken) => throw new InvalidDataException("not today");

        protected override Task ExecuteAsync(CancellationToken stoppingToken) => Task.CompletedTask;
    }

    /// <summary>Notes at each step whether the profiler runs.</summary>
    private sealed class Witness : IHostedLifecycleService
    {
        public string Seen { get; private set; } = "";

        public Task StartingAsync(CancellationToken cancellationToken) => See();

        public Task StartAsync(CancellationToken cancellationToken) => See();

        public Task StartedAsync(CancellationToken cancellationToken) => See();

        public Task StoppingAsync(CancellationToken cancellationToken) => See();

        public Task StopAsync(CancellationToken cancellationToken) => See();

        public Task StoppedAsync(CancellationToken cancellationToken) => See();

        private Task See()
        {
            Seen += Profiler.IsRunning ? '+' : '-';
            return Task.CompletedTask;
        }
    }
}
