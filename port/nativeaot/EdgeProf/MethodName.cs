namespace EdgeProf;

/// <summary>
/// Readable names of methods, as `edgeprof` shows them: Orders.Calculator.SumAsync(async), Program.Main(lambda#2),
/// Program.Main.Local(local)(async). The C# compiler encodes these in angle brackets:
///   type T+&lt;M&gt;d__7, method MoveNext        an async method or an iterator
///   type T+&lt;&gt;c, method &lt;M&gt;b__3_1         a lambda; &lt;&gt;c__DisplayClass2_0 when it holds variables
///   method &lt;M&gt;g__Local|3_1              a local function
///   type T+&lt;&gt;c+&lt;&lt;M&gt;b__3_1&gt;d           the state machine of such a lambda or local function
/// tests/unit/tools/symbols/dotnet_names.tsv has names of both sides.
/// </summary>
internal static class MethodName
{
    /// <param name="type">The type's name as the runtime has it.</param>
    /// <param name="method">The method's.</param>
    /// <param name="iterator">Whether a state machine is an iterator's.</param>
    public static string Readable(string type, string method, bool iterator = false)
    {
        var suffix = "";
        if (Machine(Inner(type)) is { } body)
        {
            var moves = method is "MoveNext" or "SetStateMachine";
            suffix = (iterator || !moves ? "(iterator)" : "(async)") + (method == "MoveNext" ? "" : "." + Member(method));
            method = body.Replace('-', '.'); // <<-ctor>b__0>d
            type = Outer(type);
        }
        if (Inner(type).StartsWith("<>c", StringComparison.Ordinal))
            type = Outer(type);
        type = Plain(type);
        return (type.Length > 0 ? type + "." : "") + Member(method) + suffix;
    }

    /// <summary>Whether the type is the state machine of an async method or an iterator.</summary>
    public static bool IsMachine(string type) => Machine(Inner(type)) is not null;

    private static string Inner(string type) => type[(type.LastIndexOf('+') + 1)..];

    private static string Outer(string type) => type[..Math.Max(type.LastIndexOf('+'), 0)];

    /// <summary>The name of a type. The box that an async method lives in while it waits,
    /// ...AsyncTaskMethodBuilder`1+AsyncStateMachineBox`1[Result,T+&lt;M&gt;d__7], is called as the method.</summary>
    public static string OfType(string type)
    {
        const string Box = "System.Runtime.CompilerServices.AsyncTaskMethodBuilder`1+AsyncStateMachineBox`1[";
        if (!type.StartsWith(Box, StringComparison.Ordinal) || type[^1] != ']')
            return type;
        var depth = 0;
        for (var i = Box.Length; i < type.Length; i++)
        {
            depth += type[i] switch { '[' => 1, ']' => -1, _ => 0 };
            if (depth != 0 || type[i] != ',')
                continue;
            var machine = type[(i + 1)..^1].Split('[')[0];
            return IsMachine(machine) ? Readable(machine, "MoveNext") : type;
        }
        return type;
    }

    private static string Member(string method)
    {
        if (Split(method, 'b') is { } lambda)
            return Member(lambda.Method) + "(lambda#" + lambda.Tail[(lambda.Tail.LastIndexOf('_') + 1)..] + ")";
        if (Split(method, 'g') is { } local)
            return Member(local.Method) + "." + local.Tail.Split('|')[0] + "(local)";
        return method is "<Main>$" or "<Main>" ? "Main" : method.StartsWith('<') ? method : Dotted(method);
    }

    /// <summary>M of &lt;M&gt;d__7 and &lt;M&gt;d, with the number of type parameters or without; else null.</summary>
    private static string? Machine(string type)
    {
        var end = Close(type);
        var rest = end > 1 ? type.AsSpan(end + 1) : default;
        return rest is ['d'] or ['d', '`', ..] or ['d', '_', '_', ..] ? type[1..end] : null;
    }

    /// <summary>IEnumerator&lt;System.Int32&gt;.get_Current, an explicit implementation: IEnumerator.System.Int32.get_Current.
    /// The host's names have no brackets.</summary>
    private static string Dotted(string method) =>
        method.Replace('<', '.').Replace(',', '.').Replace(">.", ".", StringComparison.Ordinal).Replace(">", "", StringComparison.Ordinal);

    /// <summary>Splits &lt;Method&gt;x__Rest; null if the name does not have that form.</summary>
    private static (string Method, string Tail)? Split(string name, char what)
    {
        var end = Close(name);
        return end > 1 && name.AsSpan(end + 1).StartsWith([what, '_', '_']) ? (name[1..end], name[(end + 4)..]) : null;
    }

    /// <summary>Position of the bracket that closes the name's first one; -1: the name does not start with
    /// one.</summary>
    private static int Close(string name)
    {
        var depth = 0;
        for (var i = 0; i < name.Length; i++)
        {
            depth += name[i] switch { '<' => 1, '>' => -1, _ => 0 };
            if (depth == 0)
                return i > 0 ? i : -1;
        }
        return -1;
    }

    /// <summary>Removes the numbers of type parameters, and puts dots before nested types.</summary>
    private static string Plain(string type)
    {
        if (type.StartsWith("<>f__", StringComparison.Ordinal)) // an anonymous type
            type = type[5..];
        type = WithoutFile(type);
        var plain = new System.Text.StringBuilder(type.Length);
        for (var i = 0; i < type.Length; i++)
            if (type[i] == '`')
                while (i + 1 < type.Length && char.IsAsciiDigit(type[i + 1]))
                    i++;
            else
                plain.Append(type[i] == '+' ? '.' : type[i]);
        return plain.ToString();
    }

    /// <summary>Takes &lt;Routes_g&gt;F, the hash and the underscores off a type that only its file sees.</summary>
    private static string WithoutFile(string type)
    {
        const int Hash = 64;
        var start = type.IndexOf('<');
        var end = start < 0 ? -1 : type.IndexOf(">F", start, StringComparison.Ordinal);
        var rest = end < 0 ? -1 : end + 2 + Hash;
        return rest > 0 && rest + 2 < type.Length && type[rest] == '_' && type[rest + 1] == '_'
            ? type[..start] + type[(rest + 2)..]
            : type;
    }
}
