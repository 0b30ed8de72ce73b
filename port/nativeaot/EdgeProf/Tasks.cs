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
        if (sizeof(nint) != 8 || Native.HasEndpoint() == 0)
            return;
        thread?.Join(); // the last run's, which End() has not waited for
        Native.TasksEnd(0);
        thread = new Thread(Serve, Stack) { IsBackground = true, Name = "edgeprof-tasks" };
        thread.Start();
    }

    /// <summary>A list that is being made, in a long collection, is waited for no longer than that.</summary>
    public static void End(int milliseconds)
    {
        if (thread is null)
            return;
        Native.TasksEnd(1);
        if (thread.Join(milliseconds))
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
        return error == 0 ? Text(list, took / (Stopwatch.Frequency / 1_000_000)) : "";
    }

    private sealed class Group(string chain, long count)
    {
        public readonly string Chain = chain;
        public long Count = count;
    }

    // Arrays of one class, and no formats: generic code for other types would grow each program that has an endpoint.
    private static string Text(in NativeTaskList list, long tookUs)
    {
        var groups = Groups(list.Groups);
        var count = groups.Length;
        var text = new StringBuilder();
        text.Append(Text(list.Methods)).Append(" pending async methods, ").Append(Text(count));
        text.Append(" chains; the program stood for ").Append(Milliseconds(tookUs)).Append(" ms: a collection, and ");
        text.Append(Milliseconds((long)(list.WalkedNs / 1000))).Append(" ms for the list\n");
        if (list.LeftOut > 0)
            text.Append(Text(list.LeftOut)).Append(" tasks are not counted: there are too many\n");
        for (var i = 0; i < count; i++)
        {
            if (text.Length > Longest)
            {
                text.Append(Text(count - i)).Append(" more chains\n");
                break;
            }
            text.Append(Text(groups[i].Count).PadLeft(8)).Append("  ").Append(groups[i].Chain).Append('\n');
        }
        return text.ToString();
    }

    private static string Text(long number) => number.ToString(CultureInfo.InvariantCulture);

    private static string Milliseconds(long us) => Text(us / 1000) + "." + Text(us / 100 % 10);

    /// <summary>Most first. Methods of one name may have several types.</summary>
    private static Group[] Groups(uint all)
    {
        var groups = new Group[all];
        for (var i = 0u; i < all; i++)
        {
            var group = Native.TasksGroup(i);
            groups[i] = new Group(Chain(group), group->Count);
        }
        Array.Sort(groups, static (a, b) => string.CompareOrdinal(a.Chain, b.Chain));
        var count = 0;
        foreach (var group in groups)
            if (count > 0 && groups[count - 1].Chain == group.Chain)
                groups[count - 1].Count += group.Count;
            else
                groups[count++] = group;
        Array.Resize(ref groups, count);
        Array.Sort(groups, static (a, b) => a.Count != b.Count ? b.Count.CompareTo(a.Count) : string.CompareOrdinal(a.Chain, b.Chain));
        return groups;
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
            return "0x" + type.ToString("x", CultureInfo.InvariantCulture);
        if (name == Plain || name.StartsWith(Plain + "`1[", StringComparison.Ordinal))
            return null;
        var method = MethodName.OfType(name);
        var plain = method.EndsWith(Async, StringComparison.Ordinal) ? method[..^Async.Length] : $"[{method}]";
        return Clean(plain);
    }

    private static string Clean(string name)
    {
        char[]? clean = null;
        for (var i = 0; i < name.Length; i++)
            if (char.IsControl(name[i]) || name[i] is '"' or '\\')
                (clean ??= name.ToCharArray())[i] = '?';
        if (clean is not null)
            return new string(clean);
        return name;
    }
}
