using System.ComponentModel.DataAnnotations;
using System.Text.RegularExpressions;

namespace EdgeProf.Extensions.Hosting;

/// <summary>
/// The section <c>EdgeProf</c> of the configuration: the properties of <see cref="ProfilerOptions"/>, and what only a
/// host needs. Values of the configuration win over the variables EDGEPROF_*. An invalid value fails the start of the
/// host with one line for each.
/// </summary>
public sealed partial class EdgeProfOptions : ProfilerOptions, IValidatableObject
{
    private const long MaxSpoolBytes = 1L << 30;
    private const long LeastHistory = 16 * 1024;

    /// <summary>Whether the host starts the profiler. Default: true.</summary>
    public bool Enabled { get; set; } = true;

    /// <summary>The longest that the profiler may delay the end of the host to deliver or spool the last profile, which
    /// has the work of the shutdown. It replaces <see cref="ProfilerOptions.ExitTimeout"/>. Default: 50 ms, so a server
    /// that does not answer costs a shutdown less than a tenth of a second, on a slow processor, too. A slow link needs
    /// more, or a spool. A name server that does not answer may add some seconds, because a lookup cannot be
    /// interrupted: where that matters, <see cref="ProfilerOptions.Endpoint"/> should have an address, not a
    /// name.</summary>
    [UpToMinutes(10)]
    public TimeSpan ShutdownTimeout { get; set; } = TimeSpan.FromMilliseconds(50);

    /// <summary>Whether samples of ASP.NET Core's requests carry the route as the label <c>endpoint</c>, see <see
    /// cref="Profiler.TrackRoutes"/>. Default: true.</summary>
    public bool RouteLabels { get; set; } = true;

    /// <summary>Values that the binder could not convert, and unknown keys.</summary>
    internal List<string> Unreadable { get; } = [];

    /// <summary>Whether a section has a value or code has configured something.</summary>
    internal bool IsConfigured { get; set; }

    /// <summary>Whether these options say where profiles go.</summary>
    internal bool HasTarget => Endpoint is { Length: > 0 } || Pull is { Length: > 0 } || Transport is not null;

    IEnumerable<ValidationResult> IValidatableObject.Validate(ValidationContext validationContext) =>
        Errors().Select(error => new ValidationResult("EdgeProf: " + error));

    private IEnumerable<string> Errors()
    {
        foreach (var error in Unreadable)
            yield return error;
        if (!Enum.IsDefined(Level))
            yield return $"Level must be Low, Medium or High, not {Level}";
        if (!Enum.IsDefined(Format))
            yield return $"Format must be Compact or Pprof, not {Format}";
        if ((Kinds & ~ProfileKinds.All) != 0)
            yield return $"Kinds must be {ProfileKinds.All} or some of these, not {Kinds}";
        if (RateHz is < 0 or > 1000)
            yield return $"RateHz must be 1 to 1000, or 0 for the level's rate, not {RateHz}";
        if (BudgetPpm < 0)
            yield return $"BudgetPpm must be 0 or more, not {BudgetPpm}";
        if (Interval != TimeSpan.Zero && (Interval < TimeSpan.FromMilliseconds(100) || Interval > TimeSpan.FromHours(1)))
            yield return $"Interval must be 00:00:00.1 to 01:00:00, not {Interval}";
        if (MemoryBytes < 0)
            yield return $"MemoryBytes must be 0 or more, not {MemoryBytes}";
        if (SpoolBytes is < 0 or > MaxSpoolBytes)
            yield return $"SpoolBytes must be 0 to {MaxSpoolBytes}, not {SpoolBytes}";
        if (Endpoint is { Length: > 0 } endpoint && !IsEndpoint(endpoint))
            yield return $"Endpoint must be http://host[:port][/prefix], the same with https, or file:///path, with credentials in Headers, not {Shown(endpoint)}";
        foreach (var error in IncidentErrors())
            yield return error;
        foreach (var error in TextErrors())
            yield return error;
    }

    private IEnumerable<string> IncidentErrors()
    {
        var most = TimeSpan.FromDays(1);
        if (Incidents.HistoryBytes is not 0 and < LeastHistory)
            yield return $"Incidents:HistoryBytes must be {LeastHistory} or more, or 0, not {Incidents.HistoryBytes}";
        if (Incidents.Tail < TimeSpan.Zero || Incidents.Tail > TimeSpan.FromMinutes(1))
            yield return $"Incidents:Tail must be 00:00:00 to 00:01:00, not {Incidents.Tail}";
        foreach (var (name, time) in new[]
                 {
                     (nameof(Incidents.SpanLimit), Incidents.SpanLimit), (nameof(Incidents.PauseLimit), Incidents.PauseLimit),
                     (nameof(Incidents.HeartbeatLimit), Incidents.HeartbeatLimit), (nameof(Incidents.LimitTime), Incidents.LimitTime),
                     (nameof(Incidents.Gap), Incidents.Gap),
                 })
            if (time < TimeSpan.Zero || time > most)
                yield return $"Incidents:{name} must be 00:00:00 to {most}, not {time}";
        foreach (var (name, number) in new[]
                 {
                     (nameof(Incidents.CpuPercent), Incidents.CpuPercent), (nameof(Incidents.MemoryBytes), Incidents.MemoryBytes),
                     (nameof(Incidents.ExceptionsPerSecond), Incidents.ExceptionsPerSecond), (nameof(Incidents.PerDay), Incidents.PerDay),
                     (nameof(Incidents.BytesPerDay), Incidents.BytesPerDay),
                 })
            if (number < 0)
                yield return $"Incidents:{name} must be 0 or more, not {number}";
    }

    private IEnumerable<string> TextErrors()
    {
        foreach (var (key, value) in Tags)
            if (!TagKey().IsMatch(key) || value.Contains(','))
                yield return $"Tags has {key}={value}; a key must match [a-zA-Z_][a-zA-Z0-9_]*, and a value must have no comma";
        foreach (var (name, value) in Headers)
            if (name.AsSpan().IndexOfAny(":\r\n ") >= 0 || value.AsSpan().IndexOfAny("\r\n") >= 0)
                yield return $"Headers has {name}; a name must have no colon and no space, and a value no line break";
    }

    private static bool IsEndpoint(string text) =>
        Uri.TryCreate(text, UriKind.Absolute, out var uri) && (uri.Scheme is "http" or "https"
            ? uri.Host.Length > 0 && uri.UserInfo.Length == 0 && uri.Query.Length == 0 && text.Contains("://", StringComparison.Ordinal)
            : text.StartsWith("file:///", StringComparison.Ordinal));

    /// <summary>An endpoint without user, password and query.</summary>
    internal static string Shown(string endpoint)
    {
        var scheme = endpoint.IndexOf("://", StringComparison.Ordinal);
        var host = scheme < 0 ? 0 : scheme + 3;
        var rest = endpoint.AsSpan(host);
        var path = rest.IndexOf('/');
        var user = (path < 0 ? rest : rest[..path]).LastIndexOf('@');
        var shown = string.Concat(endpoint.AsSpan(0, host), rest[(user + 1)..]);
        var query = shown.IndexOf('?');
        return query < 0 ? shown : shown[..query];
    }

    [GeneratedRegex("^[a-zA-Z_][a-zA-Z0-9_]*$", RegexOptions.CultureInvariant)]
    private static partial Regex TagKey();
}

/// <summary>A time from zero to so many minutes.</summary>
[AttributeUsage(AttributeTargets.Property)]
internal sealed class UpToMinutesAttribute(int minutes) : ValidationAttribute
{
    private readonly TimeSpan most = TimeSpan.FromMinutes(minutes);

    public override bool IsValid(object? value) => value is TimeSpan time && time >= TimeSpan.Zero && time <= most;

    public override string FormatErrorMessage(string name) => $"must be 00:00:00 to {most}";
}
