using EdgeProf;

namespace SensorGateway;

/// <summary>Says whose work is being done, for profiles.</summary>
internal static class Labels
{
    /// <summary>Until it is disposed, all work is for that site.</summary>
    public static TagScope Site(string? site) => Profiler.Tag("site", site ?? "all");

    /// <summary>Requests' spans are in the profiles, named after their route.</summary>
    public static void Use(WebApplication app)
    {
        Profiler.TrackSpans("Microsoft.AspNetCore");
        app.Use(async (context, next) =>
        {
            var route = (context.GetEndpoint() as RouteEndpoint)?.RoutePattern.RawText ?? "none";
            using (Profiler.Tag("endpoint", $"{context.Request.Method} {route}"))
                await next(context);
        });
    }
}
