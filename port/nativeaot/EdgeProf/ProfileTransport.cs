using System.Buffers.Binary;

namespace EdgeProf;

/// <summary>What became of a profile.</summary>
public enum SendResult
{
    /// <summary>The receiver has it: it may be forgotten here.</summary>
    Delivered,

    /// <summary>Not now, or nobody knows: it will be sent again, the same bytes, after a second or more. Exceptions mean
    /// the same.</summary>
    Later,

    /// <summary>The receiver does not know the segment (it has answered 409): a new one is begun.</summary>
    UnknownSegment,

    /// <summary>Refused for good: it is lost, and counted.</summary>
    Refused,
}

/// <summary>What is known of a profile beside its bytes.</summary>
public readonly struct ProfileMessage
{
    internal ProfileMessage(in NativeMessage about)
    {
        Format = (ProfileFormat)about.Format;
        (Segment, Sequence) = (about.Segment, about.Sequence);
        (Start, End) = (Time(about.StartUnixNs), Time(about.EndUnixNs));
    }

    /// <summary>How it is encoded.</summary>
    public ProfileFormat Format { get; }

    /// <summary>Compact: the dictionary that it belongs to. With <see cref="Sequence"/> it identifies the message for
    /// ever.</summary>
    public ulong Segment { get; }

    /// <summary>Compact: its place in the segment.</summary>
    public uint Sequence { get; }

    /// <summary>The time that it covers; null when the device has no clock.</summary>
    public DateTimeOffset? Start { get; }

    /// <summary>The time that it covers; null when the device has no clock.</summary>
    public DateTimeOffset? End { get; }

    private static DateTimeOffset? Time(ulong unixNs) =>
        unixNs == 0 ? null : DateTimeOffset.UnixEpoch.AddTicks((long)(unixNs / 100));
}

/// <summary>
/// Your own way for profiles out of the process. <see cref="Send"/> is called on one background thread, one message at a
/// time and in order. The profiler waits for it no longer than ten seconds, and no longer than <see cref="Profiler.Stop"/>
/// allows; what Send says after that still counts when the message is sent again. It never keeps the process from ending.
/// </summary>
public abstract class ProfileTransport
{
    /// <summary>Delivers one whole message.</summary>
    /// <param name="message">Its bytes, valid until Send returns.</param>
    /// <param name="about">What is known of it.</param>
    public abstract SendResult Send(ReadOnlySpan<byte> message, in ProfileMessage about);
}

/// <summary>
/// Writes profiles to a stream, each behind four bytes of length, little-endian, and flushes: what <c>file://</c> writes and
/// <c>edgeprof cat</c> reads. There is no answer: what was flushed counts as delivered.
/// </summary>
public sealed class StreamTransport : ProfileTransport, IDisposable
{
    private readonly object gate = new(); // a Send of an earlier run may still be writing
    private readonly Func<Stream>? open;
    private Stream? stream;

    /// <summary>Over this stream, which stays the caller's. Once it has thrown nothing more is written to it: half a
    /// message may be in it.</summary>
    public StreamTransport(Stream stream)
    {
        ArgumentNullException.ThrowIfNull(stream);
        this.stream = stream;
    }

    /// <summary>Over streams that <paramref name="open"/> opens: the first one with the first message, another when one
    /// has thrown.</summary>
    public StreamTransport(Func<Stream> open)
    {
        ArgumentNullException.ThrowIfNull(open);
        this.open = open;
    }

    /// <inheritdoc/>
    public override SendResult Send(ReadOnlySpan<byte> message, in ProfileMessage about)
    {
        lock (gate)
        {
            stream ??= open?.Invoke() ?? throw new IOException("the stream has failed before");
            try
            {
                Span<byte> length = stackalloc byte[4];
                BinaryPrimitives.WriteUInt32LittleEndian(length, (uint)message.Length);
                stream.Write(length);
                stream.Write(message);
                stream.Flush();
                return SendResult.Delivered;
            }
            catch
            {
                Close();
                throw;
            }
        }
    }

    /// <summary>Closes the stream that this has opened itself.</summary>
    public void Dispose()
    {
        lock (gate)
            Close();
    }

    private void Close()
    {
        if (open is not null)
            stream?.Dispose();
        stream = null;
    }
}

/// <summary>The managed half of port/nativeaot/managed_transport.c: one thread from a start to its stop.</summary>
internal static unsafe class TransportPump
{
    public static void Start(ProfileTransport transport, uint run) =>
        new Thread(() => Pump(transport, run)) { IsBackground = true, Name = "edgeprof-send" }.Start();

    private static void Pump(ProfileTransport transport, uint run)
    {
        var buffer = GC.AllocateUninitializedArray<byte>(8192, pinned: true);
        NativeMessage about;
        while (true)
        {
            var size = Native.MessageTake(run, &about, (byte*)System.Runtime.CompilerServices.Unsafe.AsPointer(ref buffer[0]), (ulong)buffer.Length);
            if (size == 0)
                return;
            if (size == -Native.EMsgSize)
                buffer = GC.AllocateUninitializedArray<byte>((int)about.Size, pinned: true);
            else
                Native.MessageDone(run, Send(transport, buffer.AsSpan(0, (int)size), about), 0);
        }
    }

    private static int Send(ProfileTransport transport, ReadOnlySpan<byte> message, in NativeMessage about)
    {
        try
        {
            return transport.Send(message, new ProfileMessage(about)) switch
            {
                SendResult.Delivered => 0,
                SendResult.UnknownSegment => -Native.EStale,
                SendResult.Refused => -Native.EBadMsg,
                _ => -Native.EAgain,
            };
        }
        catch (Exception)
        {
            return -Native.EIo; // counted as a failure, sent again
        }
    }
}
