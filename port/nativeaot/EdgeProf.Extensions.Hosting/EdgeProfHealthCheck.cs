using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace EdgeProf.Extensions.Hosting;

/// <summary>Whether profiles are made and arrive.</summary>
internal sealed class EdgeProfHealthCheck(EdgeProfMonitor monitor) : IHealthCheck
{
    public Task<HealthCheckResult> CheckHealthAsync(HealthCheckContext context, CancellationToken cancellationToken = default)
    {
        var stats = monitor.Look();
        var data = new Dictionary<string, object>
        {
            ["delivered"] = stats.Delivered,
            ["deliveredBytes"] = stats.DeliveredBytes,
            ["lost"] = EdgeProfMonitor.Lost(stats),
            ["cost"] = stats.CostPpm / 1e6,
            ["spooled"] = stats.SpoolMessages,
            ["level"] = Profiler.Level.ToString(),
        };
        var problem = monitor.Problem(stats);
        var status = problem is null ? HealthStatus.Healthy : context.Registration.FailureStatus;
        return Task.FromResult(new HealthCheckResult(status, problem ?? monitor.Idle ?? "profiles are made and delivered", data: data));
    }
}
