using System.Diagnostics;
using System.Globalization;
using System.Text;

namespace EdgeProf;

/// <summary>Lists what pending async methods wait for when an endpoint is asked: port/nativeaot/pending.c. The list is made at
/// the end of a full collection, by a thread of its own that is otherwise blocked. Only programs with an endpoint have
/// it.</summary>
internal static unsafe class Tasks
{
    private const int Stack = 256 * 1024, Longest = 200 * 1024, Tries = 3;
    private static Thread? thread;

    public static void Begin()
    {
        if (thread is not null || sizeof(nint) != 8 || Native.HasEndpoint() == 0)
            return;
        Native.TasksEnd(0);
        thread = new Thread(Serve, Stack) { IsBackground = true, Name = "edgeprof-tasks" };
        thread.Start();
    }

    public static void End()
    {
        if (thread is null)
            return;
        Native.TasksEnd(1);
        thread.Join();
        thread = null;
    }

    private static void Serve()
    {
        while (Native.TasksNext() == 0)
        {
            byte[] text;
            try
            {
                text = Encoding.UTF8.GetBytes(List());
            }
            catch (Exception) // such as OutOfMemoryException: the list is not worth the program
            {
                text = [];
            }
            fixed (byte* bytes = text)
                Native.TasksAnswer(bytes, (uint)text.Length);
        }
    }

    /// <summary>Empty: this runtime is not known, or there is no memory.</summary>
    private static string List()
    {
        if (!AsyncProbe.KnowsTasks())
            return "";
        NativeTaskList list = default;
        var error = -Native.EAgain;
        long took = 0;
        for (var tries = 0; error == -Native.EAgain && tries < Tries; tries++)
        {
            if (Native.TasksBegin() != 0)
                return "";
            var from = Stopwatch.GetTimestamp();
            GC.Collect(GC.MaxGeneration, GCCollectionMode.Forced, blocking: true, compacting: false);
            took = Stopwatch.GetTimestamp() - from;
            error = Native.TasksList(&list);
        }
        return error == 0 ? Text(list, took * 1e3 / Stopwatch.Frequency) : "";
    }

    private static string Text(in NativeTaskList list, double took)
    {
        var counts = new Dictionary<string, long>(); // methods of one name may have several types
        for (var i = 0u; i < list.Groups; i++)
        {
            var group = Native.TasksGroup(i);
            var chain = Chain(group);
            counts[chain] = counts.GetValueOrDefault(chain) + group->Count;
        }
        var groups = counts.Select(static pair => (Count: pair.Value, Chain: pair.Key)).ToList();
        groups.Sort(static (a, b) => a.Count != b.Count ? b.Count.CompareTo(a.Count) : string.CompareOrdinal(a.Chain, b.Chain));
        var text = new StringBuilder();
        text.Append(CultureInfo.InvariantCulture,
                    $"{list.Methods} pending async methods, {groups.Count} chains; the program stood for {took:F1} ms: a collection, and {list.WalkedNs / 1e6:F1} ms for the list\n");
        if (list.LeftOut > 0)
            text.Append(CultureInfo.InvariantCulture, $"{list.LeftOut} tasks are not counted: there are too many\n");
        for (var i = 0; i < groups.Count; i++)
        {
            if (text.Length > Longest)
            {
                text.Append(CultureInfo.InvariantCulture, $"{groups.Count - i} more chains\n");
                break;
            }
            text.Append(CultureInfo.InvariantCulture, $"{groups[i].Count,8}  {groups[i].Chain}\n");
        }
        return text.ToString();
    }

    private static string Chain(NativeTaskGroup* group)
    {
        var chain = new StringBuilder();
        for (var i = 0; i < (int)group->Depth; i++)
            if (Name((nint)group->Type[i]) is { } name)
                chain.Append(chain.Length > 0 ? " <- " : "").Append(name);
        if (group->Depth == NativeTaskGroup.Most)
            chain.Append(" <- ...");
        return chain.ToString();
    }

    /// <summary>Orders.Db.ReadAsync for a method, [System.Threading.Tasks.Task+DelayPromise] for another task. Null for one
    /// that says nothing, such as a TaskCompletionSource's.</summary>
    private static string? Name(nint type)
    {
        const string Async = "(async)", Plain = "System.Threading.Tasks.Task";
        string? name = null;
        try
        {
            name = Type.GetTypeFromHandle(RuntimeTypeHandle.FromIntPtr(type))?.ToString();
        }
        catch (Exception)
        {
            // The runtime cannot name it.
        }
        if (name is not { Length: > 0 })
            return $"0x{type:x}";
        if (name == Plain || name.StartsWith(Plain + "`1[", StringComparison.Ordinal))
            return null;
        var method = MethodName.OfType(name);
        var plain = method.EndsWith(Async, StringComparison.Ordinal) ? method[..^Async.Length] : $"[{method}]";
        return Clean(plain);
    }

    private static string Clean(string name)
    {
        foreach (var c in name)
            if (char.IsControl(c) || c is '"' or '\\')
                return new string(name.Select(static c => char.IsControl(c) || c is '"' or '\\' ? '?' : c).ToArray());
        return name;
    }
}
