/*
 * A kernel for qemu-system-x86_64 -kernel (Multiboot 1). It computes while the timer interrupts it, prints the result and
 * ends the machine: QEMU's -device isa-debug-exit gives exit status 2 * 16 + 1.
 */
        .code32
        .text
        .long   0x1badb002, 0, -0x1badb002      /* the header of Multiboot */
        .globl  start
start:  mov     $stack_end, %esp
        lgdt    segments_at
        ljmp    $8, $1f
1:      mov     $16, %eax
        mov     %eax, %ds
        mov     %eax, %es
        mov     %eax, %ss
        call    interrupts_on
        mov     $1, %eax
        mov     $ROUNDS, %ecx
2:      imul    $1103515245, %eax
        add     %ecx, %eax
        mov     %eax, %edx
        and     $0xfffc, %edx
        add     memory(%edx), %eax
        mov     %eax, memory(%edx)
        dec     %ecx
        jnz     2b
        cli
        mov     $8, %ecx
        call    print_hex
        cmpl    $0, ticks
        mov     $'T', %al
        jne     3f
        mov     $'-', %al
3:      call    print
        mov     $10, %al
        call    print
        mov     $16, %al
        outb    %al, $0xf4
4:      hlt
        jmp     4b

/* eax: the value, ecx: digits. The first digit is the lowest. */
print_hex:
        mov     %eax, %ebx
1:      mov     %ebx, %eax
        and     $15, %eax
        mov     digits(%eax), %al
        call    print
        shr     $4, %ebx
        loop    1b
        ret

/* al, to the first serial port */
print:  mov     $0x3f8, %dx
        outb    %al, %dx
        ret

/* Interrupt 32 is the timer's, about 18 times a second. */
interrupts_on:
        mov     $tick, %eax
        mov     $table + 32 * 8, %edi
        mov     %ax, (%edi)
        movw    $8, 2(%edi)
        movw    $0x8e00, 4(%edi)
        shr     $16, %eax
        mov     %ax, 6(%edi)
        lidt    table_at
        mov     $0x11, %al
        outb    %al, $0x20
        mov     $32, %al
        outb    %al, $0x21
        mov     $4, %al
        outb    %al, $0x21
        mov     $1, %al
        outb    %al, $0x21
        mov     $0xfe, %al
        outb    %al, $0x21
        sti
        ret

tick:   push    %eax
        incl    ticks
        mov     $0x20, %al
        outb    %al, $0x20
        pop     %eax
        iret

        .data
        .align  8
digits: .ascii  "0123456789abcdef"
segments:
        .quad   0, 0x00cf9a000000ffff, 0x00cf92000000ffff
segments_at:
        .word   . - segments - 1
        .long   segments
table_at:
        .word   33 * 8 - 1
        .long   table

        .bss
        .align  16
ticks:  .space  4
table:  .space  33 * 8
memory: .space  65536 + 4
stack:  .space  4096
stack_end:
