' Three quarters of the CPU time are Hottest's. Nothing here knows of a profiler. Xor, because VB checks for overflow.
Imports System
Imports System.Runtime
Imports System.Runtime.CompilerServices

Module Program
    Sub Main()
        Dim sum As ULong = 0
        For round = 1 To 100
            sum = sum Xor Hottest(12000000) Xor Lesser(4000000)
        Next
        Console.WriteLine(String.Concat(sum.ToString(), ": server ", GCSettings.IsServerGC.ToString(), ", comma False"))
    End Sub

    <MethodImpl(MethodImplOptions.NoInlining)>
    Function Hottest(steps As ULong) As ULong
        Dim x As ULong = 88172645463325252UL
        For i As ULong = 1 To steps
            x = x Xor (x << 13)
            x = x Xor (x >> 7)
            x = x Xor (x << 17)
        Next
        Return x
    End Function

    <MethodImpl(MethodImplOptions.NoInlining)>
    Function Lesser(steps As ULong) As ULong
        Dim x As ULong = 88172645463325252UL
        For i As ULong = 1 To steps
            x = x Xor (x << 17)
            x = x Xor (x >> 7)
            x = x Xor (x << 13)
        Next
        Return x
    End Function
End Module
