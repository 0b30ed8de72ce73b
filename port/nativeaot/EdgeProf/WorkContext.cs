namespace EdgeProf;

/// <summary>
/// The active tags and the span of the current work, immutable. It flows like an AsyncLocal, through awaits and to
/// other threads. Whenever a thread takes up other work, the handler passes it to the C side, which stores it for that
/// thread's samples. <c>Activity.CurrentChanged</c> is not enough: it is not raised when a context moves to another
/// thread.
/// </summary>
internal sealed class WorkContext
{
    private static readonly AsyncLocal<WorkContext?> Local = new(static change => PassToNative(change.CurrentValue));

    private TagNode? tags;     // the root is the span's endpoint
    private TagNode? endpoint; // the endpoint that `tags` was made with
    private readonly SpanState? span;

    internal WorkContext(TagNode? tags, SpanState? span)
    {
        this.tags = tags;
        this.span = span;
        endpoint = span?.Endpoint;
    }

    internal SpanState? Span => span;
    internal TagNode? Tags => tags;

    /// <summary>The context of this flow of control; null: no tags and no span.</summary>
    internal static WorkContext? Current => Local.Value;

    // ---- tags ----

    private const int Steps = 8;

    /// <summary>Weak, so that a thread without work does not keep the contexts of its last work, which may hold a
    /// request. The next collection empties it.</summary>
    [ThreadStatic]
    private static WeakReference<TagStep?[]>? steps;

    private static TagStep?[] StepsOfThread()
    {
        var made = new TagStep?[Steps];
        if (steps is { } known)
            known.SetTarget(made);
        else
            steps = new WeakReference<TagStep?[]>(made);
        return made;
    }

    /// <summary>The two contexts of a step differ only in this class's value. So switching between them only replaces
    /// this thread's context and informs the C side; other notifications of <see cref="ExecutionContext.Restore"/> are
    /// not due.</summary>
    internal static TagScope Push(string key, string value)
    {
        ref var context = ref ThreadContext.Here;
        var place = (uint)(key.Length ^ value.Length * 5) % Steps;
        if (steps is null || !steps.TryGetTarget(out var kept))
            kept = StepsOfThread();
        if (kept[place] is not { } step || !ReferenceEquals(step.Before, context)
            || !ReferenceEquals(step.Key, key) || !ReferenceEquals(step.Value, value))
            return new TagScope(PushNew(key, value, ref context, ref kept[place]));
        context = step.After;
        PassToNative(step.Pushed);
        return new TagScope(step);
    }

    private static TagStep PushNew(string key, string value, ref ExecutionContext? context, ref TagStep? kept)
    {
        var flows = ExecutionContext.Capture() is not null;
        var (before, current) = (context, Local.Value);
        var tags = TagCache.Get(current?.tags, key, value);
        var work = current?.span is { } span ? span.Carry(tags) : tags.Alone;
        Local.Value = work;
        var step = new TagStep(key, value, before, flows ? context : null, current, work);
        if (step.After is not null)
            kept = step;
        return step;
    }

    /// <summary>Undoes a push. If nothing else has changed since, the previous context is exactly right, and cheaper
    /// than a new one.</summary>
    internal static void Pop(TagStep step)
    {
        ref var context = ref ThreadContext.Here;
        if (step.After is not null && ReferenceEquals(context, step.After))
        {
            context = step.Before;
            PassToNative(step.Previous);
        }
        else if (Local.Value is { } current && step.Pushed.tags is { } tag)
        {
            Set(TagNode.Without(current.tags, tag), current.span);
        }
    }

    // ---- spans ----

    /// <summary>Keeps the tags and sets another span (null: none).</summary>
    internal static void Enter(SpanState? span) => Set(TagNode.Rebase(Local.Value?.tags, span?.Endpoint), span);

    /// <summary>Names the endpoint of the current work, which may have no span, for its samples from now on.</summary>
    internal static void NameByRoute(string route)
    {
        var current = Local.Value;
        if (current?.span is not { } span)
        {
            if (!TagNode.HasEndpoint(current?.tags))
                Set(TagNode.Rebase(current?.tags, TagNode.OfEndpoint(route)), null);
        }
        else if (span.NameByRoute(route))
        {
            PassToNative(current);
        }
    }

    private static void Set(TagNode? tags, SpanState? span) =>
        Local.Value = span?.Carry(tags) ?? tags?.Alone;

    // ---- the thread's side ----

    /// <summary>Runs on the thread that takes up the work. Must not throw, or the process would end.</summary>
    private static void PassToNative(WorkContext? work)
    {
        if (work is null)
            Native.WorkSet(0, 0, 0, 0);
        else if (work.span is null)
            Native.WorkSet(work.tags!.Id, 0, 0, 0);
        else
            work.PassSpanToNative(work.span);
    }

    private void PassSpanToNative(SpanState own)
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

/// <summary>A push: the contexts before and after it. Pushing the same tag on the same context again reuses the context
/// after it. A thread caches a few pushes, with their contexts, until the next collection. After is null if the
/// context must not flow; then nothing is cached.</summary>
internal sealed class TagStep(string key, string value, ExecutionContext? before, ExecutionContext? after, WorkContext? previous, WorkContext pushed)
{
    internal readonly string Key = key, Value = value;
    internal readonly ExecutionContext? Before = before, After = after;
    internal readonly WorkContext? Previous = previous;
    internal readonly WorkContext Pushed = pushed;
}
