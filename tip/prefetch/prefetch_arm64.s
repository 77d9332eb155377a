#include "textflag.h"

// EACH asks for all lines of the first bytes of each record; WHERE is the cache.
#define EACH(WHERE) \
	MOVD base+0(FP), R0; \
	MOVD units_base+8(FP), R1; \
	MOVD units_len+16(FP), R2; \
	MOVD bytes+32(FP), R3; \
	CBZ  R2, done; \
record: \
	MOVWU.P 4(R1), R4; \
	ADD  R4<<3, R0, R4; \
	ADD  R3, R4, R5; \
	SUB  $1, R5; \
line: \
	PRFM (R4), WHERE; \
	ADD  $64, R4; \
	CMP  R5, R4; \
	BLT  line; \
	PRFM (R5), WHERE; \
	SUB  $1, R2; \
	CBNZ R2, record; \
done: \
	RET

// func Line(p unsafe.Pointer)
TEXT ·Line(SB), NOSPLIT, $0-8
	MOVD p+0(FP), R0
	PRFM (R0), PLDL1KEEP
	RET

// func Records(base uintptr, units []uint32, bytes int)
TEXT ·Records(SB), NOSPLIT, $0-40
	EACH(PLDL1KEEP)

// func Far(base uintptr, units []uint32, bytes int)
TEXT ·Far(SB), NOSPLIT, $0-40
	EACH(PLDL2KEEP)

// func Bytes(p uintptr, n int)
TEXT ·Bytes(SB), NOSPLIT, $0-16
	MOVD p+0(FP), R0
	MOVD n+8(FP), R1
	ADD  R0, R1

line:
	PRFM (R0), PLDL1KEEP
	ADD  $64, R0
	CMP  R1, R0
	BLT  line
	RET
