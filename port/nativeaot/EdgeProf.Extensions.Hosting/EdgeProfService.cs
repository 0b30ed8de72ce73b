using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Options;

namespace EdgeProf.Extensions.Hosting;

/// <summary>Starts the profiler before the host's other services start, and stops it after they have stopped, so their
/// start and the graceful shutdown are in the profile. A profiler that cannot run never stops the host.</summary>
internal sealed class EdgeProfService(IOptions<EdgeProfOptions> configured, EdgeProfMonitor monitor) : IHostedLifecycleService, IDisposable
{
    private static readonly TimeSpan LookEvery = TimeSpan.FromSeconds(10);

    private readonly object gate = new();
    private Timer? looks;
    private bool started;
    private TimeSpan timeout;

    public Task StartingAsync(CancellationToken cancellationToken)
    {
        var options = configured.Value;
        timeout = options.ExitTimeout = options.ShutdownTimeout;
        if (WhyIdle(options) is { } idle)
            StayIdle(idle);
        else if (!Profiler.IsSupported)
            NotSupported();
        else
            Start(options);
        return Task.CompletedTask;
    }

    public Task StartAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public Task StartedAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    /// <summary>What was measured until now is sent while the other services stop.</summary>
    public Task StoppingAsync(CancellationToken cancellationToken)
    {
        if (started)
            Profiler.Flush();
        return Task.CompletedTask;
    }

    public Task StopAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public Task StoppedAsync(CancellationToken cancellationToken)
    {
        Stop();
        return Task.CompletedTask;
    }

    /// <summary>For a host that has failed to start, and therefore does not stop its services.</summary>
    public void Dispose() => Stop();

    private static string? WhyIdle(EdgeProfOptions options)
    {
        if (!options.Enabled)
            return "EdgeProf:Enabled is false";
        return options.HasTarget || Profiler.IsRunning || Profiler.IsConfiguredByEnvironment ? null : "EdgeProf:Endpoint is not set";
    }

    /// <summary>Also stops a profiler that the environment has started.</summary>
    private void StayIdle(string reason)
    {
        monitor.Idle = reason;
        if (Profiler.IsRunning)
        {
            Profiler.Stop(timeout);
            monitor.Log.SwitchedOff(reason);
        }
        else
            monitor.Log.Idle(reason);
    }

    /// <summary>`dotnet run` is not expected to be profiled. In a program that is published with NativeAOT it is a mistake of the
    /// build. Only the JIT's host has a list of assemblies; RuntimeFeature says what the project wants, not what runs.</summary>
    private void NotSupported()
    {
        var reason = Profiler.UnsupportedReason;
        if (AppContext.GetData("TRUSTED_PLATFORM_ASSEMBLIES") is not null)
            monitor.Idle = reason = "not profiled (JIT): " + reason;
        else
            monitor.Failure = reason;
        monitor.Log.Idle(reason);
    }

    private void Start(EdgeProfOptions options)
    {
        Profiler.KeepNotices = true;
        if (options.RouteLabels)
            Profiler.TrackRoutes();
        try
        {
            if (options.IsConfigured || !Profiler.IsRunning) // what the environment has started needs no other start
                Profiler.Start(options);
            started = true;
            monitor.Spool = options.SpoolDirectory ?? Environment.GetEnvironmentVariable("EDGEPROF_SPOOL") ?? "";
            monitor.Failure = null;
            looks = new Timer(static monitor => ((EdgeProfMonitor)monitor!).LookQuietly(), monitor, LookEvery, LookEvery);
            monitor.Log.Started(Profiler.Level, Target(options));
            monitor.Look();
        }
        catch (Exception e) when (e is ArgumentException or InvalidOperationException)
        {
            Profiler.KeepNotices = false;
            monitor.TakeNotices();
            monitor.Log.Failed(monitor.Failure = e.Message);
        }
    }

    private static string Target(EdgeProfOptions options) =>
        options.Transport is { } transport ? transport.GetType().Name
        : options.Endpoint is { Length: > 0 } endpoint ? EdgeProfOptions.Shown(endpoint)
        : options.Pull is { Length: > 0 } pull ? $"clients of {pull}"
        : "where the environment says";

    private void Stop()
    {
        lock (gate)
        {
            if (!started)
                return;
            started = false;
            looks?.Dispose();
            var complete = !Profiler.IsRunning || Profiler.Stop(timeout); // the program may have stopped it
            var stats = monitor.Look();
            Profiler.KeepNotices = false;
            if (!complete)
                monitor.Log.NotDelivered(timeout);
            monitor.Log.Stopped(stats.Delivered, stats.SpoolMessages, EdgeProfMonitor.Lost(stats), stats.CostPpm / 1e6);
        }
    }
}
