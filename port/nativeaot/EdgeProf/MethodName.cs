namespace EdgeProf;

/// <summary>
/// Readable names of methods, as `edgeprof` shows them: Orders.Calculator.SumAsync(async), Program.Main(lambda#2),
/// Program.Main.Local(local). The C# compiler encodes these in angle brackets:
///   type T+&lt;M&gt;d__7, method MoveNext        an async method or an iterator
///   type T+&lt;&gt;c, method &lt;M&gt;b__3_1         a lambda; &lt;&gt;c__DisplayClass2_0 when it holds variables
///   method &lt;M&gt;g__Local|3_1              a local function
/// </summary>
internal static class MethodName
{
    public static string Readable(string type, string method)
    {
        var suffix = "";
        var nested = type.LastIndexOf('+');
        var inner = type[(nested + 1)..];
        if (inner.StartsWith("<>c", StringComparison.Ordinal))
            type = nested < 0 ? "" : type[..nested];
        else if (Split(inner, 'd') is { } machine)
        {
            suffix = method == "MoveNext" ? "(async)" : "(iterator)." + method;
            method = machine.Method;
            type = nested < 0 ? "" : type[..nested];
        }
        type = Plain(type);
        return (type.Length > 0 ? type + "." : "") + Member(method) + suffix;
    }

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
            return Split(machine[(machine.LastIndexOf('+') + 1)..], 'd') is null ? type : Readable(machine, "MoveNext");
        }
        return type;
    }

    private static string Member(string method)
    {
        if (Split(method, 'b') is { } lambda)
            return Member(lambda.Method) + "(lambda#" + lambda.Tail[(lambda.Tail.LastIndexOf('_') + 1)..] + ")";
        if (Split(method, 'g') is { } local)
            return Member(local.Method) + "." + local.Tail.Split('|')[0] + "(local)";
        return method is "<Main>$" ? "Main" : method;
    }

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
        var plain = new System.Text.StringBuilder(type.Length);
        for (var i = 0; i < type.Length; i++)
            if (type[i] == '`')
                while (i + 1 < type.Length && char.IsAsciiDigit(type[i + 1]))
                    i++;
            else
                plain.Append(type[i] == '+' ? '.' : type[i]);
        return plain.ToString();
    }
}
