package disk

// Forget asks the system to drop what it keeps of an open file in memory, so that the
// next reads come from the device and what was read before leaves room for others. It
// is a hint: where it cannot be given, nothing happens.
func Forget(f File) {
	if x, ok := f.(interface{ forget() }); ok {
		x.forget()
	}
}
