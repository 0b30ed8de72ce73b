// Names of methods as the device has them.
//
//   Names table FILE      the names of dotnet_names.tsv, which the host's test reads as well
//   Names burn ENDPOINT   uses CPU time in lambdas, local functions, async methods and iterators; the profile has their names
using System.Runtime.CompilerServices;
using EdgeProf;

internal static class NamesProgram
{
    public static async Task<int> Run(string[] args)
    {
        if (args is ["table", var file])
            return Table(file) ? 0 : 1;
        if (args is not ["burn", var endpoint])
            throw new ArgumentException("Names: expected table FILE or burn ENDPOINT");
        Profiler.Start(new ProfilerOptions { Service = "names", Endpoint = endpoint, Level = ProfileLevel.High });
        await new NameForms<int>().RunAsync();
        return Profiler.Stop(TimeSpan.FromSeconds(10)) ? 0 : 1;
    }

    private static bool Table(string file)
    {
        int rows = 0, wrong = 0;
        foreach (var line in File.ReadLines(file))
        {
            if (line.Split('\t') is not [_, var code, var type, var method, var wanted])
                throw new InvalidDataException(line);
            var name = MethodName.Readable(type, method, code == "iterator");
            rows++;
            if (name == WithoutArguments(wanted))
                continue;
            Console.WriteLine($"FAIL {type} {method}\n  is     {name}\n  wanted {WithoutArguments(wanted)}");
            wrong++;
        }
        Console.WriteLine($"{(wrong == 0 ? "ok  " : "FAIL")} {rows} names of the device are those of the host, {wrong} are not");
        return wrong == 0 && rows > 80;
    }

    /// <summary>The runtime's names have no type arguments.</summary>
    private static string WithoutArguments(string name)
    {
        var depth = 0;
        return string.Concat(name.Where(c =>
        {
            depth += c == '<' ? 1 : 0;
            var keep = depth == 0;
            depth -= c == '>' ? 1 : 0;
            return keep;
        }));
    }
}

/// <summary>Each of these uses CPU time itself.</summary>
internal sealed class NameForms<T>
{
    private static double sink;

    public NameForms() => new Action(() =>
    {
        Burn();
        sink++; // no tail call
    })();

    public async Task RunAsync()
    {
        Func<Task> lambda = async () =>
        {
            await Task.Yield();
            Burn();
        };
        await lambda();
        await LocalAsync(1);
        foreach (var _ in Items(1))
            Burn();
        await foreach (var _ in Stream())
            Burn();
        async Task LocalAsync(int captured)
        {
            await Task.Yield();
            Burn();
            Inner();
            [MethodImpl(MethodImplOptions.NoInlining)]
            void Inner()
            {
                Burn(captured);
                sink++;
            }
        }
        IEnumerable<int> Items(int n)
        {
            Burn();
            yield return n;
        }
    }

    private static async IAsyncEnumerable<int> Stream()
    {
        await Task.Yield();
        Burn();
        yield return 1;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Burn(int more = 0)
    {
        for (var start = Native.ThreadCpuNs(); Native.ThreadCpuNs() - start < 100_000_000 + more;)
            for (var i = 1; i < 1000; i++)
                sink += Math.Sqrt(i);
    }
}
