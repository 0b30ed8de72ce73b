// The least core library that the ILC compiler accepts: no garbage collector, no exceptions, no threads. What code
// compiled against it looks like on ARM (prologues, epilogues, calls, funclets, unwind tables) is what the real one's
// users get; what it cannot do is throw.
//
// The names and fields here are a contract with the compiler.

namespace System
{
    using Internal.Runtime;

    public unsafe class Object
    {
        internal MethodTable* m_pEEType;

        public virtual bool Equals(object other) => (object)this == other;
        public virtual int GetHashCode() => 0;
    }

    public struct Void;
    public struct Boolean;
    public struct Char;
    public struct SByte;
    public struct Byte;
    public struct Int16;
    public struct UInt16;
    public struct Int32;
    public struct UInt32;
    public struct Int64;
    public struct UInt64;
    public struct IntPtr;
    public struct UIntPtr;
    public struct Single;
    public struct Double;
    public abstract class ValueType;
    public abstract class Enum : ValueType;
    public struct Nullable<T> where T : struct;

    public sealed class String
    {
        public readonly int Length;
        private char _first;
    }

    public abstract class Array
    {
        private int _length;
        public int Length => _length;
    }

    public class Array<T> : Array;

    public abstract class Delegate;
    public abstract class MulticastDelegate : Delegate;
    public class Exception;
    public class Attribute;
    public struct RuntimeTypeHandle;
    public struct RuntimeMethodHandle;
    public struct RuntimeFieldHandle;
    public enum AttributeTargets { All = 0x7fff }

    public sealed class AttributeUsageAttribute(AttributeTargets targets) : Attribute
    {
        public bool AllowMultiple { get; set; }
        public bool Inherited { get; set; }
        public AttributeTargets Targets => targets;
    }

    public sealed class ParamArrayAttribute : Attribute;
    public sealed class FlagsAttribute : Attribute;
}

namespace System.Reflection
{
    public sealed class DefaultMemberAttribute(string name) : Attribute
    {
        public string Name => name;
    }
}

namespace System.Runtime
{
    public sealed class RuntimeExportAttribute(string entry) : Attribute
    {
        public string Entry => entry;
    }
}

namespace System.Runtime.CompilerServices
{
    public static class RuntimeHelpers
    {
        public static unsafe int OffsetToStringData => sizeof(nint) + sizeof(int);
    }

    public static class RuntimeFeature
    {
        public const string UnmanagedSignatureCallingConvention = nameof(UnmanagedSignatureCallingConvention);
    }

    public enum MethodImplOptions { NoInlining = 8, AggressiveInlining = 256 }

    public sealed class MethodImplAttribute(MethodImplOptions options) : Attribute
    {
        public MethodImplOptions Value => options;
    }

    public sealed class IsVolatile;
    public sealed class SkipLocalsInitAttribute : Attribute;
    public sealed class UnsafeValueTypeAttribute : Attribute;
    public sealed class FixedBufferAttribute(Type type, int length) : Attribute
    {
        public Type ElementType => type;
        public int Length => length;
    }
}

namespace System
{
    public class Type;
    internal class RuntimeType : Type;

    /// <summary>64-bit arithmetic with an overflow check, which a 32-bit stackalloc names and never calls here.</summary>
    internal static class Math
    {
        private static long MultiplyChecked(long a, long b) => a * b;
        private static ulong MultiplyChecked(ulong a, ulong b) => a * b;
    }
}

namespace System.Runtime.InteropServices
{
    public enum CallingConvention { Cdecl = 2 }
    public enum LayoutKind { Sequential = 0, Explicit = 2, Auto = 3 }
    public enum CharSet { None = 1 }

    public sealed class StructLayoutAttribute(LayoutKind kind) : Attribute
    {
        public LayoutKind Value => kind;
        public int Pack;
        public int Size;
        public CharSet CharSet;
    }

    public sealed class DllImportAttribute(string library) : Attribute
    {
        public string Value => library;
        public string EntryPoint;
    }

    public sealed class UnmanagedCallersOnlyAttribute : Attribute
    {
        public string EntryPoint;
    }

    public sealed class SuppressGCTransitionAttribute : Attribute;
    public sealed class InAttribute : Attribute;
}

namespace Internal.Runtime
{
    using System.Runtime.InteropServices;

    /// <summary>The head of what the compiler emits for a type; vtable and more follow.</summary>
    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct MethodTable
    {
        internal ushort ComponentSize;
        internal ushort Flags;
        internal uint BaseSize;
    }
}

namespace Internal.Runtime.CompilerHelpers
{
    using System;
    using System.Runtime;
    using System.Runtime.InteropServices;

    /// <summary>What compiled code calls; in the real thing these are the runtime's.</summary>
    internal static unsafe class StartupCodeHelpers
    {
        [DllImport("native"), SuppressGCTransition]
        private static extern void* zero_allocate(uint size);

        [DllImport("native"), SuppressGCTransition]
        private static extern void zero_fail();

        [RuntimeExport("RhpReversePInvoke")]
        private static void ReversePInvoke(void* frame) { }

        [RuntimeExport("RhpReversePInvokeReturn")]
        private static void ReversePInvokeReturn(void* frame) { }

        [RuntimeExport("RhpPInvoke")]
        private static void PInvoke(void* frame) { }

        [RuntimeExport("RhpPInvokeReturn")]
        private static void PInvokeReturn(void* frame) { }

        [RuntimeExport("RhpGcPoll")]
        private static void Poll() { }

        [RuntimeExport("RhpFallbackFailFast")]
        private static void FailFast() => zero_fail();

        [RuntimeExport("InitializeModules")]
        private static void InitializeModules(nint module, nint* modules, int count, nint* functions, int functionCount) { }

        [RuntimeExport("RhpNewFast")]
        private static void* NewFast(MethodTable* type)
        {
            var memory = (MethodTable**)zero_allocate(type->BaseSize);
            *memory = type;
            return memory;
        }

        [RuntimeExport("RhpNewArray")]
        private static void* NewArray(MethodTable* type, int count)
        {
            var memory = (MethodTable**)zero_allocate(type->BaseSize + (uint)count * type->ComponentSize);
            *memory = type;
            *(int*)(memory + 1) = count;
            return memory;
        }
    }

    /// <summary>Arithmetic that 32-bit ARM has no instructions for.</summary>
    internal static unsafe class MathHelpers
    {
        [DllImport("native"), SuppressGCTransition]
        private static extern int __aeabi_idiv(int a, int b);

        [DllImport("native"), SuppressGCTransition]
        private static extern uint __aeabi_uidiv(uint a, uint b);

        [DllImport("native"), SuppressGCTransition]
        private static extern ulong __aeabi_uldivmod(ulong a, ulong b);

        [DllImport("native"), SuppressGCTransition]
        private static extern long __aeabi_ldivmod(long a, long b);

        private static int IDiv(int a, int b) => __aeabi_idiv(a, b);
        private static int IMod(int a, int b) => a - b * __aeabi_idiv(a, b);
        private static uint UDiv(uint a, uint b) => __aeabi_uidiv(a, b);
        private static uint UMod(uint a, uint b) => a - b * __aeabi_uidiv(a, b);
        private static long LDiv(long a, long b) => __aeabi_ldivmod(a, b);
        private static long LMod(long a, long b) => a - b * __aeabi_ldivmod(a, b);
        private static ulong ULDiv(ulong a, ulong b) => __aeabi_uldivmod(a, b);
        private static ulong ULMod(ulong a, ulong b) => a - b * __aeabi_uldivmod(a, b);
    }

    internal static class ThrowHelpers
    {
        private static void ThrowInvalidProgramException(int id) { while (true) ; }
        private static void ThrowInvalidProgramExceptionWithArgument(int id, string name) { while (true) ; }
        private static void ThrowTypeLoadException(int id, string type, string module) { while (true) ; }
        private static void ThrowIndexOutOfRangeException() { while (true) ; }
        private static void ThrowNullReferenceException() { while (true) ; }
        private static void ThrowOverflowException() { while (true) ; }
        private static void ThrowDivideByZeroException() { while (true) ; }
        private static void ThrowPlatformNotSupportedException() { while (true) ; }
        private static void ThrowNotSupportedException() { while (true) ; }
    }
}
