using System.Diagnostics;

internal static partial class Work
{
    private static double sink;

    /// <summary>Uses that much CPU time.</summary>
    public static void For(int milliseconds)
    {
        using var self = Process.GetCurrentProcess();
        var end = self.TotalProcessorTime + TimeSpan.FromMilliseconds(milliseconds);
        while (self.TotalProcessorTime < end)
        {
            for (var i = 1; i < 200_000; i++)
                sink += Math.Sqrt(i);
            self.Refresh();
        }
    }
}
