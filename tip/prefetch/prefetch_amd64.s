#include "textflag.h"

// EACH asks for all lines of the first bytes of each record; FETCH is the instruction.
#define EACH(FETCH) \
	MOVQ base+0(FP), AX; \
	MOVQ units_base+8(FP), BX; \
	MOVQ units_len+16(FP), CX; \
	MOVQ bytes+32(FP), DX; \
	TESTQ CX, CX; \
	JLE  done; \
record: \
	MOVL (BX), SI; \
	LEAQ (AX)(SI*8), SI; \
	LEAQ -1(SI)(DX*1), DI; \
line: \
	FETCH (SI); \
	ADDQ $64, SI; \
	CMPQ SI, DI; \
	JLT  line; \
	FETCH (DI); \
	ADDQ $4, BX; \
	DECQ CX; \
	JNE  record; \
done: \
	RET

// func Line(p unsafe.Pointer)
TEXT ·Line(SB), NOSPLIT, $0-8
	MOVQ p+0(FP), AX
	PREFETCHT0 (AX)
	RET

// func Records(base uintptr, units []uint32, bytes int)
TEXT ·Records(SB), NOSPLIT, $0-40
	EACH(PREFETCHT0)

// func Far(base uintptr, units []uint32, bytes int)
TEXT ·Far(SB), NOSPLIT, $0-40
	EACH(PREFETCHT1)

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
