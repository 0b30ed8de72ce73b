using System.Diagnostics;
using OpenTelemetry;

namespace EdgeProf.OpenTelemetry;

/// <summary>Connects spans and profiles: each local root span that the provider records gets the attribute
/// <c>pyroscope.profile.id</c>, by which trace viewers find its profile, and EdgeProf's samples of every kind carry
/// its ids and its name. <c>Sdk.CreateTracerProviderBuilder()....AddProcessor(new SpanProfileProcessor())</c></summary>
public sealed class SpanProfileProcessor : BaseProcessor<Activity>
{
    private const string ProfileId = "pyroscope.profile.id";

    /// <summary>Tracks spans from now on, whenever the profiler runs.</summary>
    public SpanProfileProcessor() => Profiler.TrackSpans();

    /// <inheritdoc/>
    public override void OnStart(Activity data)
    {
        if (Profiler.IsTracking && data.Recorded && data.Parent is not { Recorded: true })
            data.SetTag(ProfileId, data.SpanId.ToHexString());
    }
}
