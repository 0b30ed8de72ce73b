namespace SensorGateway;

/// <summary>Without a profiler there are no labels.</summary>
internal static class Labels
{
    public static IDisposable? Site(string? _) => null;

    public static void Use(WebApplication _)
    {
    }
}
