namespace EdgeProf;

/// <summary>A tag in force, from <see cref="Profiler.Tag"/> to <see cref="Dispose"/>. Dispose it once, in the method that
/// made it: <c>using (Profiler.Tag("tenant", name)) ...</c></summary>
public readonly struct TagScope : IDisposable
{
    private readonly Work? pushed;
    private readonly ExecutionContext? before, after;

    internal TagScope(Work pushed, ExecutionContext? before, ExecutionContext? after)
    {
        this.pushed = pushed;
        this.before = before;
        this.after = after;
    }

    /// <summary>The tag is in force no more.</summary>
    public void Dispose()
    {
        if (pushed is not null)
            Work.Pop(pushed, before, after);
    }
}
