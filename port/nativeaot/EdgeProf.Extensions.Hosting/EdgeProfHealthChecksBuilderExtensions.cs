using EdgeProf.Extensions.Hosting;
using Microsoft.Extensions.DependencyInjection.Extensions;
using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace Microsoft.Extensions.DependencyInjection;

/// <summary>Adds the profiler's health check.</summary>
public static class EdgeProfHealthChecksBuilderExtensions
{
    /// <summary>Adds a check that is healthy while the profiler runs, its profiles arrive, and nothing was lost in the
    /// last minute; also while the profiler is switched off. Its data has <c>delivered</c> and <c>deliveredBytes</c>,
    /// <c>lost</c> (samples of CPU time, and the events that lost samples of other kinds stand for), <c>cost</c> (a ratio of the process' CPU time), <c>spooled</c> (messages that wait on the
    /// disk) and <c>level</c>.</summary>
    /// <param name="builder">The health checks.</param>
    /// <param name="name">The check's name.</param>
    /// <param name="failureStatus">The status when it is not healthy. Null: <see cref="HealthStatus.Degraded"/>, because
    /// the service itself works.</param>
    /// <param name="tags">Tags by which checks can be chosen.</param>
    /// <param name="timeout">The check's timeout. Null: none.</param>
    /// <returns>The same health checks.</returns>
    public static IHealthChecksBuilder AddEdgeProf(this IHealthChecksBuilder builder, string name = "edgeprof",
        HealthStatus? failureStatus = null, IEnumerable<string>? tags = null, TimeSpan? timeout = null)
    {
        ArgumentNullException.ThrowIfNull(builder);
        builder.Services.TryAddSingleton<EdgeProfMonitor>();
        return builder.Add(new HealthCheckRegistration(name,
            static provider => new EdgeProfHealthCheck(provider.GetRequiredService<EdgeProfMonitor>()),
            failureStatus ?? HealthStatus.Degraded, tags, timeout));
    }
}
