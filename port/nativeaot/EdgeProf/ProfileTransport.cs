using System.Buffers.Binary;

namespace EdgeProf;

/// <summary>The result of sending a profile.</summary>
public enum SendResult
{
    /// <summary>The receiver has accepted it.</summary>
    Delivered,

    /// <summary>Not delivered, or unknown: the same bytes will be sent again after a second or more. Exceptions have
    /// the same effect.</summary>
    Later,

    /// <summary>The receiver does not know the segment (it answered 409): a new segment begins.</summary>
    UnknownSegment,

    /// <summary>Refused permanently: the profile is dropped and counted as lost.</summary>
    Refused,
}

/// <summary>Metadata of a profile.</summary>
public readonly struct ProfileMessage
{
    internal ProfileMessage(in NativeMessage about)
    {
        Format = (ProfileFormat)about.Format;
        (Segment, Sequence) = (about.Segment, about.Sequence);
        (Start, End) = (Time(about.StartUnixNs), Time(about.EndUnixNs));
    }

    /// <summary>Its encoding.</summary>
    public ProfileFormat Format { get; }

    /// <summary>Compact: the id of its dictionary. Together with <see cref="Sequence"/> it identifies the message
    /// permanently.</summary>
    public ulong Segment { get; }

    /// <summary>Compact: its number in the segment.</summary>
    public uint Sequence { get; }

    /// <summary>The time that it covers; null when the device has no clock.</summary>
    public DateTimeOffset? Start { get; }

    /// <summary>The time that it covers; null when the device has no clock.</summary>
    public DateTimeOffset? End { get; }

    private static DateTimeOffset? Time(ulong unixNs) =>
        unixNs == 0 ? null : DateTimeOffset.UnixEpoch.AddTicks((long)(unixNs / 100));
}

/// <summary>
/// Base class for your own transport. <see cref="Send"/> is called on one background thread, one message at a time and
/// in order. The profiler waits at most ten seconds for it, and at most as long as <see cref="Profiler.Stop"/> allows.
/// A later result still counts when the same message is sent again. The thread never keeps the process from ending.
/// </summary>
public abstract class ProfileTransport
{
    /// <summary>Delivers one whole message.</summary>
    /// <param name="message">Its bytes, valid until Send returns.</param>
    /// <param name="about">Its metadata.</param>
    public abstract SendResult Send(ReadOnlySpan<byte> message, in ProfileMessage about);
}

/// <summary>
/// Writes profiles to a stream, each after four bytes with its length, little-endian, and flushes. <c>file://</c>
/// writes the same format, and <c>edgeprof cat</c> reads it. A flushed profile counts as delivered.
/// </summary>
public sealed class StreamTransport : ProfileTransport, IDisposable
{
    private readonly object gate = new(); // a Send of an earlier run may still be writing
    private readonly Func<Stream>? open;
    private Stream? stream;

    /// <summary>Uses this stream, which the caller still owns. After an exception nothing more is written to it, because
    /// it may contain a partial message.</summary>
    public StreamTransport(Stream stream)
    {
        ArgumentNullException.ThrowIfNull(stream);
        this.stream = stream;
    }

    /// <summary>Uses streams opened by <paramref name="open"/>: one for the first message, and a new one after an
    /// exception.</summary>
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

    /// <summary>Closes the stream if this object opened it.</summary>
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
            return -Native.EIo; // counted as a failure and sent again
        }
    }
}
