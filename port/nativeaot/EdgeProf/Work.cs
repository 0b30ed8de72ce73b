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

    private const int Steps = 8;

    [ThreadStatic]
    private static Step?[]? steps;

    /// <summary>Two contexts that a step has connected differ in our value alone, so going from one to the other needs no more
    /// than this thread's context replaced and the C side told: none of the other notifications that
    /// <see cref="ExecutionContext.Restore"/> looks for is due.</summary>
    internal static TagScope Push(string key, string value)
    {
        ref var context = ref ThreadContext.Here;
        var place = (uint)(key.Length ^ value.Length * 5) % Steps;
        if ((steps ??= new Step?[Steps])[place] is not { } step || !ReferenceEquals(step.Before, context)
            || !ReferenceEquals(step.Key, key) || !ReferenceEquals(step.Value, value))
            return new TagScope(PushNew(key, value, ref context, ref steps[place]));
        context = step.After;
        Tell(step.Pushed);
        return new TagScope(step);
    }

    private static Step PushNew(string key, string value, ref ExecutionContext? context, ref Step? kept)
    {
        var flows = ExecutionContext.Capture() is not null;
        var (before, current) = (context, Local.Value);
        var tags = TagCache.Get(current?.tags, key, value);
        var work = current?.span is { } span ? span.Carry(tags) : tags.Alone;
        Local.Value = work;
        var step = new Step(key, value, before, flows ? context : null, current, work);
        if (step.After is not null)
            kept = step;
        return step;
    }

    /// <summary>Back to what was before a push. When nothing else has changed since, the context from before is the
    /// exact answer, and cheaper than a new one.</summary>
    internal static void Pop(Step step)
    {
        ref var context = ref ThreadContext.Here;
        if (step.After is not null && ReferenceEquals(context, step.After))
        {
            context = step.Before;
            Tell(step.Previous);
        }
        else if (Local.Value is { } current && step.Pushed.tags is { } tag)
        {
            Set(TagNode.Without(current.tags, tag), current.span);
        }
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

/// <summary>What a push on a thread led from and to: the same tag over the same context leads there again, without a new
/// context. A thread keeps a few, and with them their contexts, until other tags take their places. After is null when
/// the context must not flow: then nothing is kept.</summary>
internal sealed class Step(string key, string value, ExecutionContext? before, ExecutionContext? after, Work? previous, Work pushed)
{
    internal readonly string Key = key, Value = value;
    internal readonly ExecutionContext? Before = before, After = after;
    internal readonly Work? Previous = previous;
    internal readonly Work Pushed = pushed;
}
