#include "textflag.h"

// func Line(p unsafe.Pointer)
TEXT ·Line(SB), NOSPLIT, $0-8
	MOVQ p+0(FP), AX
	PREFETCHT0 (AX)
	RET

// func Records(base uintptr, units []uint32, bytes int)
TEXT ·Records(SB), NOSPLIT, $0-40
	MOVQ base+0(FP), AX
	MOVQ units_base+8(FP), BX
	MOVQ units_len+16(FP), CX
	MOVQ bytes+32(FP), DX
	TESTQ CX, CX
	JLE  done

record:
	MOVL (BX), SI
	LEAQ (AX)(SI*8), SI
	LEAQ -1(SI)(DX*1), DI

line:
	PREFETCHT0 (SI)
	ADDQ $64, SI
	CMPQ SI, DI
	JLT  line
	PREFETCHT0 (DI)
	ADDQ $4, BX
	DECQ CX
	JNE  record

done:
	RET

// func Far(base uintptr, units []uint32, bytes int)
TEXT ·Far(SB), NOSPLIT, $0-40
	MOVQ base+0(FP), AX
	MOVQ units_base+8(FP), BX
	MOVQ units_len+16(FP), CX
	MOVQ bytes+32(FP), DX
	TESTQ CX, CX
	JLE  done

record:
	MOVL (BX), SI
	LEAQ (AX)(SI*8), SI
	LEAQ -1(SI)(DX*1), DI

line:
	PREFETCHT1 (SI)
	ADDQ $64, SI
	CMPQ SI, DI
	JLT  line
	PREFETCHT1 (DI)
	ADDQ $4, BX
	DECQ CX
	JNE  record

done:
	RET

// func Bytes(p uintptr, n int)
TEXT ·Bytes(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ n+8(FP), BX
	ADDQ AX, BX

line:
	PREFETCHT0 (AX)
	ADDQ $64, AX
	CMPQ AX, BX
	JLT  line
	RET
