package tsv

import "hash/fnv"

// words is what padding is made of: it compresses about as well as source code.
var words = [...]string{
	"func ", "return ", "if ", "err ", "!= ", "nil ", "{\n\t", "}\n", "for ", "range ", "string ", "int ",
	"struct ", "type ", "var ", "const ", "import ", "package ", "public ", "static ", "void ", "class ",
	"def ", "self.", "None ", "True ", "False ", "lambda ", "yield ", "while ", "break;\n", "continue;\n",
	"length ", "buffer ", "offset ", "index ", "value ", "key ", "name ", "path ", "file ", "open(", "close()",
	"read(", "write(", "size ", "count ", "total ", "result ", "error(", "warn(", "info(", "debug(", "0x00, ",
	"0xff, ", "1, ", "2, ", "3, ", "10, ", "64, ", "100, ", "1024, ", "= ", "== ", "+ ", "- ", "* ", "&& ",
	"|| ", "(", ") ", "[", "] ", "; ", ", ", "\"\" ", "// ", "/* ", "*/ ", "# ", "the ", "of ", "to ", "and ",
	"a ", "in ", "is ", "it ", "that ", "with ", "as ", "be ", "on ", "not ", "this ", "are ", "or ", "from ",
	"by ", "at ", "an ", "which ", "when ", "must ", "may ", "one ", "all ", "each ", "has ", "test ", "config ",
	"default ", "option ", "version ", "license ", "copyright ", "build ", "install ", "depends ", "source ",
	"target ", "module ", "export ", "require(", "new ", "null ", "this.",
}

// Payload appends the line's payload to dst: Short, which is never cut, and then
// text up to min(Size, limit) bytes. The text depends on topic and Short alone,
// so the same line has the same payload in every run and on every machine.
func (l Line) Payload(dst []byte, limit int64) []byte {
	start := len(dst)
	dst = append(dst, l.Short...)
	end := start + int(min(l.Size, limit))
	if len(dst) >= end {
		return dst
	}
	seed := fnv.New64a()
	seed.Write([]byte(l.Topic))
	seed.Write([]byte{'\t'})
	seed.Write([]byte(l.Short))
	state := seed.Sum64()
	for dst = append(dst, '\n'); len(dst) < end; {
		// One step of splitmix64 gives four words.
		state += 0x9e3779b97f4a7c15
		z := state
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		z ^= z >> 31
		for range 4 {
			dst = append(dst, words[uint16(z)%uint16(len(words))]...)
			z >>= 16
		}
	}
	return dst[:end]
}
