using EdgeProf;

namespace SensorGateway;

/// <summary>Sets tags and spans for profiles; SENSOR_LABELS=0 disables them.</summary>
internal static class Labels
{
    private static readonly bool Wanted = Environment.GetEnvironmentVariable("SENSOR_LABELS") != "0";

    /// <summary>Tags all work with the site until disposed.</summary>
    public static TagScope Site(string? site) => Wanted ? Profiler.Tag("site", site ?? "all") : default;

    /// <summary>Profiles contain the requests' spans, named after their route.</summary>
    public static void Use(WebApplication app)
    {
        if (!Wanted)
            return;
        Profiler.TrackSpans("Microsoft.AspNetCore");
        app.Use(async (context, next) =>
        {
            var route = (context.GetEndpoint() as RouteEndpoint)?.RoutePattern.RawText ?? "none";
            using (Profiler.Tag("endpoint", $"{context.Request.Method} {route}"))
                await next(context);
        });
    }
}
