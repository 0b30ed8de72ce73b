namespace EdgeProf;

/// <summary>
/// Whose work is being done: the tags in force and the span, immutable. It flows as an AsyncLocal does, through awaits
/// and to other threads; each time a thread takes up other work the handler tells the C side, which keeps it for that
/// thread, where every sample finds it. <c>Activity.Current</c> and <c>Activity.CurrentChanged</c> would not do: nothing
/// is raised when a context moves to another thread.
/// </summary>
internal sealed class Work
{
    private static readonly AsyncLocal<Work?> Local = new(static change => Tell(change.CurrentValue));

    private TagNode? tags;     // with the endpoint of the span at the root
    private TagNode? endpoint; // that `tags` was made with
    private readonly SpanState? span;

    internal Work(TagNode? tags, SpanState? span)
    {
        this.tags = tags;
        this.span = span;
        endpoint = span?.Endpoint;
    }

    internal SpanState? Span => span;
    internal TagNode? Tags => tags;

    /// <summary>Of this flow of control; null: nothing was said.</summary>
    internal static Work? Current => Local.Value;

    // ---- tags ----

    /// <summary>What a push on this thread led from and to: the same tag over the same context leads there again,
    /// without a new context. Keeps a few contexts alive until other tags take their places.</summary>
    private struct Step
    {
        internal ExecutionContext? Before, After;
        internal string? Key, Value;
        internal Work? Pushed;
    }

    private const int Steps = 8;

    [ThreadStatic]
    private static Step[]? steps;

    internal static TagScope Push(string key, string value)
    {
        var before = ExecutionContext.Capture(); // null: it must not flow, and is not kept
        ref var step = ref (steps ??= new Step[Steps])[(uint)(key.Length ^ value.Length * 5) % Steps];
        if (before is null || !ReferenceEquals(step.Before, before) || !ReferenceEquals(step.Key, key)
            || !ReferenceEquals(step.Value, value))
            return PushNew(key, value, before, ref step);
        var scope = new TagScope(step.Pushed!, before, step.After);
        ExecutionContext.Restore(step.After!);
        return scope;
    }

    private static TagScope PushNew(string key, string value, ExecutionContext? before, ref Step step)
    {
        var current = Local.Value;
        var tags = TagCache.Get(current?.tags, key, value);
        var work = current?.span is { } span ? span.Carry(tags) : tags.Alone;
        Local.Value = work;
        var after = ExecutionContext.Capture();
        if (before is not null && after is not null)
            step = new Step { Before = before, After = after, Key = key, Value = value, Pushed = work };
        return new TagScope(work, before, after);
    }

    /// <summary>Back to what was before a push. When nothing else has changed since, the context from before is the
    /// exact answer, and cheaper than a new one.</summary>
    internal static void Pop(Work pushed, ExecutionContext? before, ExecutionContext? after)
    {
        if (before is not null && after is not null && ReferenceEquals(ExecutionContext.Capture(), after))
            ExecutionContext.Restore(before);
        else if (Local.Value is { } current && pushed.tags is { } tag)
            Set(TagNode.Without(current.tags, tag), current.span);
    }

    // ---- spans ----

    /// <summary>The same tags for another span (null: none).</summary>
    internal static void Enter(SpanState? span) => Set(TagNode.Rebase(Local.Value?.tags, span?.Endpoint), span);

    private static void Set(TagNode? tags, SpanState? span) =>
        Local.Value = span?.Carry(tags) ?? tags?.Alone;

    // ---- the thread's side ----

    /// <summary>Runs on the thread that takes up the work. Must not throw: the process would end.</summary>
    private static void Tell(Work? work)
    {
        if (work is null)
            Native.WorkSet(0, 0, 0, 0);
        else if (work.span is null)
            Native.WorkSet(work.tags!.Id, 0, 0, 0);
        else
            work.TellSpan(work.span);
    }

    private void TellSpan(SpanState own)
    {
        own.Refresh();
        if (!ReferenceEquals(endpoint, own.Endpoint))
        {
            tags = TagNode.Rebase(tags, own.Endpoint);
            endpoint = own.Endpoint;
        }
        Native.WorkSet(tags?.Id ?? 0, own.SpanId, own.TraceHigh, own.TraceLow);
    }
}
