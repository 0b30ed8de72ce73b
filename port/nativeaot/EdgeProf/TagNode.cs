using System.Text;

namespace EdgeProf;

/// <summary>A set of tags: a parent set and one more pair. Stores its number on the C side, so that a tag used before
/// needs no conversion of strings.</summary>
internal sealed class TagNode
{
    private const int LongestText = 128; // characters; the C side keeps at most 96 bytes

    internal readonly TagNode? Parent;
    internal readonly string Key, Value;
    internal readonly bool IsEndpoint; // a span's endpoint; such a node is a root
    internal readonly uint Hash;
    internal readonly WorkContext Alone; // these tags without a span
    private long known;           // run of the profiler << 32 | number

    internal TagNode(TagNode? parent, string key, string value, bool isEndpoint, uint hash)
    {
        (Parent, Key, Value, IsEndpoint, Hash) = (parent, key, value, isEndpoint, hash);
        Alone = new WorkContext(this, null);
    }

    /// <summary>Number of the set in this run of the profiler, 0: no tags.</summary>
    internal uint Id
    {
        get
        {
            var now = Volatile.Read(ref known);
            return (int)(now >> 32) == Profiler.Run ? (uint)now : Learn();
        }
    }

    private uint Learn()
    {
        var run = Profiler.Run;
        var id = Add(Parent?.Id ?? 0);
        if (id != 0 || Profiler.Tracks) // 0 during a start: do not cache it
            Volatile.Write(ref known, (long)run << 32 | id);
        return id;
    }

    private unsafe uint Add(uint parent)
    {
        var key = stackalloc byte[3 * LongestText];
        var value = stackalloc byte[3 * LongestText];
        var keySize = Valid(key, Utf8(Key, key));
        return keySize == 0 ? parent : Native.TagsAdd(parent, key, keySize, value, Utf8(Value, value));
    }

    private static unsafe uint Utf8(string text, byte* bytes) =>
        (uint)Encoding.UTF8.GetBytes(text.AsSpan(0, Math.Min(text.Length, LongestText)), new Span<byte>(bytes, 3 * LongestText));

    /// <summary>Replaces characters not allowed in keys by '_'.</summary>
    private static unsafe uint Valid(byte* key, uint size)
    {
        for (uint i = 0; i < size; i++)
            if (!char.IsAsciiLetter((char)key[i]) && (i == 0 || !char.IsAsciiDigit((char)key[i])))
                key[i] = (byte)'_';
        return size;
    }

    internal static TagNode OfEndpoint(string name) => TagCache.Get(null, "endpoint", name, true);

    internal static bool HasEndpoint(TagNode? tags)
    {
        while (tags is { IsEndpoint: false })
            tags = tags.Parent;
        return tags is not null;
    }

    /// <summary>The same pairs on another endpoint (null: none).</summary>
    internal static TagNode? Rebase(TagNode? tags, TagNode? endpoint) =>
        tags is null || tags.IsEndpoint ? endpoint : TagCache.Get(Rebase(tags.Parent, endpoint), tags.Key, tags.Value);

    /// <summary>Removes the innermost pair equal to the given node's.</summary>
    internal static TagNode? Without(TagNode? tags, TagNode pair)
    {
        if (tags is null || tags.IsEndpoint)
            return tags;
        if (tags.Key == pair.Key && tags.Value == pair.Value)
            return tags.Parent;
        var rest = Without(tags.Parent, pair);
        return ReferenceEquals(rest, tags.Parent) ? tags : TagCache.Get(rest, tags.Key, tags.Value);
    }
}

/// <summary>Recently used sets of tags: a table of fixed size. A new set replaces an old one if its places are taken.
/// Threads may race for a place; the loser creates its set again next time.</summary>
internal static class TagCache
{
    private const int Size = 512, Places = 4;
    private static readonly TagNode?[] Table = new TagNode?[Size];
    private static uint turn;

    internal static TagNode Get(TagNode? parent, string key, string value) => Get(parent, key, value, false);

    internal static TagNode Get(TagNode? parent, string key, string value, bool isEndpoint)
    {
        var table = Table;
        var hash = HashOf(parent, key, value);
        for (uint i = 0; i < Places; i++)
            if (table[(hash + i) % Size] is { } node && ReferenceEquals(node.Parent, parent) && node.Value == value
                && node.Key == key && node.IsEndpoint == isEndpoint)
                return node;
        return Make(parent, key, value, isEndpoint, hash);
    }

    private static TagNode Make(TagNode? parent, string key, string value, bool isEndpoint, uint hash)
    {
        var node = new TagNode(parent, key, value, isEndpoint, hash);
        for (uint i = 0; i < Places; i++)
            if (Table[(hash + i) % Size] is null)
            {
                Table[(hash + i) % Size] = node;
                return node;
            }
        Table[(hash + turn++ % Places) % Size] = node;
        return node;
    }

    /// <summary>Hashes only a few characters: a collision costs one comparison, hashing all characters would cost every
    /// time.</summary>
    private static uint HashOf(TagNode? parent, string key, string value)
    {
        var hash = ((parent?.Hash ?? 0) + (uint)key.Length) * 31 + (uint)value.Length;
        if (key.Length > 0)
            hash = (hash * 31 + key[0]) * 31 + key[^1];
        if (value.Length > 0)
            hash = ((hash * 31 + value[0]) * 31 + value[value.Length / 2]) * 31 + value[^1];
        return hash * 0x9E3779B1 >> 8;
    }
}
