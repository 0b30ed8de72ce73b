using EdgeProf.OpenTelemetry;

namespace OpenTelemetry.Trace;

/// <summary>Adds EdgeProf to a tracer provider.</summary>
public static class EdgeProfTracerProviderBuilderExtensions
{
    /// <summary>Connects spans and profiles by a <see cref="SpanProfileProcessor"/>.</summary>
    /// <param name="builder">The tracer provider's builder.</param>
    /// <returns>The same builder.</returns>
    public static TracerProviderBuilder AddEdgeProf(this TracerProviderBuilder builder)
    {
        ArgumentNullException.ThrowIfNull(builder);
        return builder.AddProcessor(new SpanProfileProcessor());
    }
}
