using EdgeProf;

namespace SensorGateway;

/// <summary>Says whose work is being done, for profiles; SENSOR_LABELS=0: does not.</summary>
internal static class Labels
{
    private static readonly bool Wanted = Environment.GetEnvironmentVariable("SENSOR_LABELS") != "0";

    /// <summary>Until it is disposed, all work is for that site.</summary>
    public static TagScope Site(string? site) => Wanted ? Profiler.Tag("site", site ?? "all") : default;

    /// <summary>Requests' spans are in the profiles, named after their route.</summary>
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
