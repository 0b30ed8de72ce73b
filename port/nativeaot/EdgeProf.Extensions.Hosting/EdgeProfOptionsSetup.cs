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

    private const string Generated = "The generator replaces the call to Bind.";

    /// <summary>The generator has a suppressor for these warnings, too; the analyzer of .NET 10 ignores it.</summary>
    [UnconditionalSuppressMessage("Trimming", "IL2026", Justification = Generated)]
    [UnconditionalSuppressMessage("AOT", "IL3050", Justification = Generated)]
    public void Configure(EdgeProfOptions options)
    {
        if (section is null || !section.GetChildren().Any())
            return;
        options.IsConfigured = true;
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
                ? "unknown key " + message[(message.LastIndexOf(": ", StringComparison.Ordinal) + 2)..]
                : message;
        var path = failed.Groups["path"].Value;
        var key = section is IConfigurationSection { Path: var start } && path.StartsWith(start + ':', StringComparison.OrdinalIgnoreCase)
            ? path[(start.Length + 1)..]
            : path;
        var type = failed.Groups["type"].Value;
        return type == "System.Byte[]" ? $"{key} must be base64" : $"{key} must be {Allowed(type)}, not '{section[key]}'";
    }

    private static string Allowed(string type) => type switch
    {
        "EdgeProf.ProfileLevel" => "Low, Medium or High",
        "EdgeProf.ProfileFormat" => "Compact or Pprof",
        "EdgeProf.ProfileKinds" => "All, or some of " + string.Join(", ", Enum.GetNames<ProfileKinds>()[1..^1]),
        _ => "of the type " + type,
    };

    [GeneratedRegex("at '(?<path>[^']+)' to type '(?<type>[^']+)'", RegexOptions.CultureInvariant)]
    private static partial Regex Failed();
}

/// <summary>Checks the attributes and the rules of <see cref="EdgeProfOptions"/>.</summary>
[OptionsValidator]
internal sealed partial class EdgeProfOptionsValidator : IValidateOptions<EdgeProfOptions>;
