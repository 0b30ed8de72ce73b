namespace SensorGateway;

/// <summary>Without a profiler nobody wants to know.</summary>
internal static class Labels
{
    public static IDisposable? Site(string? _) => null;

    public static void Use(WebApplication _)
    {
    }
}
