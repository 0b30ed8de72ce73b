using System.Text;

namespace Shadow;

internal static class Extensions
{
    /// <summary>For a delegate over an extension method: its stub moves arguments and jumps.</summary>
    public static void Keep(this StringBuilder builder, string line) => builder.AppendLine(line);
}
