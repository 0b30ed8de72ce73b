using System.Text.RegularExpressions;

namespace SensorGateway;

public readonly record struct SensorName(string Site, string Kind, int Number)
{
    /// <exception cref="FormatException">The name is not of the form site/kind-number.</exception>
    public static SensorName Parse(string? name)
    {
        var match = Patterns.Sensor().Match(name ?? "");
        if (!match.Success)
            throw new FormatException("expected site/kind-number");
        return new SensorName(match.Groups["site"].Value, match.Groups["kind"].Value,
                              int.Parse(match.Groups["number"].ValueSpan));
    }
}

internal static partial class Patterns
{
    [GeneratedRegex(@"^(?<site>[a-z]+[0-9]*)/(?<kind>[a-z]+)-(?<number>[0-9]{1,4})$")]
    public static partial Regex Sensor();

    [GeneratedRegex(@"(?<first>[aeiou])(?<rest>[a-z]*)")]
    public static partial Regex AfterVowel();
}

internal static class Report
{
    /// <summary>One line for each site and kind of sensor, the most deviating first.</summary>
    public static List<ReportLine> Build(Reading[] readings, string? site)
    {
        var lines = readings
            .Select(reading => (Name: SensorName.Parse(reading.Sensor), Reading: reading))
            .Where(pair => site is null || pair.Name.Site == site)
            .GroupBy(pair => (pair.Name.Site, pair.Name.Kind))
            .Select(group => Line(group.Key.Site, group.Key.Kind, group.Select(pair => pair.Reading.Value).ToArray()))
            .ToList();
        lines.Sort((a, b) => Math.Abs(b.Worst).CompareTo(Math.Abs(a.Worst)) is var order && order != 0
                                 ? order
                                 : string.CompareOrdinal(a.Site + a.Kind, b.Site + b.Kind));
        return lines;
    }

    private static ReportLine Line(string site, string kind, double[] values)
    {
        var mean = values.Average();
        Array.Sort(values, (a, b) => Math.Abs(b - mean).CompareTo(Math.Abs(a - mean)));
        var label = Patterns.AfterVowel().Replace(kind, match => match.Groups["first"].Value.ToUpperInvariant() + match.Groups["rest"].Value);
        return new ReportLine(site, kind, values.Length, Math.Round(mean, 3), Math.Round(values[0] - mean, 3), $"{site}:{label}");
    }
}
