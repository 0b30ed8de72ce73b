using System.Diagnostics.CodeAnalysis;
using System.Text.RegularExpressions;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.Options;

namespace EdgeProf.Extensions.Hosting;

/// <summary>Binds a section to the options. What cannot be read becomes a line of the validation, so that all errors
/// are reported together.</summary>
internal sealed partial class EdgeProfOptionsSetup(IConfiguration? section) : IConfigureOptions<EdgeProfOptions>
{
    public const string Section = "EdgeProf";

    /// <summary>Keys that have keys of their own. The binder ignores a text in their place.</summary>
    private static readonly (string Name, string Content)[] Sections =
    [
        (nameof(EdgeProfOptions.Tags), "keys with values"),
        (nameof(EdgeProfOptions.Headers), "names with values"),
        (nameof(EdgeProfOptions.SpanSources), "a list"),
        (nameof(EdgeProfOptions.Tls), "a section"),
        (nameof(EdgeProfOptions.Incidents), "a section"),
    ];

    private const string Generated = "The generator replaces the call to Bind.";

    /// <summary>The generator has a suppressor for these warnings, too; the analyzer of .NET 10 ignores it.</summary>
    [UnconditionalSuppressMessage("Trimming", "IL2026", Justification = Generated)]
    [UnconditionalSuppressMessage("AOT", "IL3050", Justification = Generated)]
    public void Configure(EdgeProfOptions options)
    {
        if (section is null || !section.GetChildren().Any())
            return;
        options.IsConfigured = true;
        foreach (var (name, content) in Sections)
            if (section[name] is { Length: > 0 } text)
                options.Unreadable.Add($"{name} must be {content}, not the text '{(name == nameof(options.Headers) ? "..." : text)}'");
        try
        {
            section.Bind(options, binder => binder.ErrorOnUnknownConfiguration = true);
        }
        catch (InvalidOperationException e)
        {
            options.Unreadable.Add(Explain(section, e.Message));
        }
    }

    /// <summary>Adds to a message of the generated code the value that could not be converted, and what is allowed. The
    /// value of an array of bytes may be a private key and is not repeated.</summary>
    private static string Explain(IConfiguration section, string message)
    {
        if (Failed().Match(message) is not { Success: true } failed)
            return message.Contains(nameof(BinderOptions.ErrorOnUnknownConfiguration), StringComparison.Ordinal)
                ? Unknown(message)
                : message;
        var path = failed.Groups["path"].Value;
        var key = section is IConfigurationSection { Path: var start } && path.StartsWith(start + ':', StringComparison.OrdinalIgnoreCase)
            ? path[(start.Length + 1)..]
            : path;
        var type = failed.Groups["type"].Value;
        return type == "System.Byte[]" ? $"{key} must be base64" : $"{key} must be {Allowed(type)}, not '{section[key]}'";
    }

    /// <summary>Each unknown key of a message of the binder, "'A', 'B'" at its end, with the key that was probably meant.</summary>
    private static string Unknown(string message)
    {
        var options = message.Contains(nameof(ProfilerTls), StringComparison.Ordinal) ? typeof(ProfilerTls).GetProperties()
            : message.Contains(nameof(ProfilerIncidents), StringComparison.Ordinal) ? typeof(ProfilerIncidents).GetProperties()
            : typeof(EdgeProfOptions).GetProperties();
        var keys = message[(message.LastIndexOf(": ", StringComparison.Ordinal) + 2)..].Split(", ");
        return "unknown key " + string.Join(", ", keys.Select(key =>
        {
            var name = key.Trim('\'');
            var near = options.Select(static option => option.Name).MinBy(option => Distance(option, name))!;
            return Distance(near, name) <= 1 + name.Length / 4 ? $"{key} (did you mean {near}?)" : key;
        }));
    }

    /// <summary>How many letters to insert, remove or replace: Levenshtein's distance, ignoring case.</summary>
    private static int Distance(string a, string b)
    {
        var row = Enumerable.Range(0, b.Length + 1).ToArray();
        for (var i = 0; i < a.Length; i++)
        {
            var corner = row[0]++;
            for (var j = 0; j < b.Length; j++)
            {
                var replace = corner + (char.ToUpperInvariant(a[i]) == char.ToUpperInvariant(b[j]) ? 0 : 1);
                corner = row[j + 1];
                row[j + 1] = Math.Min(replace, 1 + Math.Min(row[j], row[j + 1]));
            }
        }
        return row[^1];
    }

    private static string Allowed(string type) => type switch
    {
        "EdgeProf.ProfileLevel" => "Low, Medium or High",
        "EdgeProf.ProfileFormat" => "Compact or Pprof",
        "EdgeProf.ProfileKinds" => "All, or some of " + string.Join(", ", Enum.GetNames<ProfileKinds>()[1..^1]),
        "System.Int32" or "System.Int64" => "a whole number",
        "System.Boolean" => "true or false",
        "System.TimeSpan" => "a time such as 00:00:10",
        _ => "of the type " + type,
    };

    [GeneratedRegex("at '(?<path>[^']+)' to type '(?<type>[^']+)'", RegexOptions.CultureInvariant)]
    private static partial Regex Failed();
}

/// <summary>Checks the attributes and the rules of <see cref="EdgeProfOptions"/>.</summary>
[OptionsValidator]
internal sealed partial class EdgeProfOptionsValidator : IValidateOptions<EdgeProfOptions>;
