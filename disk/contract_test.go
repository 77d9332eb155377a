package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// Every implementation of FS passes the same checks.

func TestContractOS(t *testing.T) {
	contract(t, func(t *testing.T) FS { return OS(t.TempDir()) })
	t.Run("the root is made", func(t *testing.T) {
		fsys := OS(filepath.Join(t.TempDir(), "new", "root"))
		must(t, fsys.MkdirAll("."))
		put(t, fsys, "f", "x")
	})
}

func TestContractMem(t *testing.T) {
	contract(t, func(*testing.T) FS { return NewMem(1) })
}

func TestContractMount(t *testing.T) {
	contract(t, func(*testing.T) FS { return NewMem(1).Mount() })
}

var contractChecks = map[string]func(*testing.T, FS){
	"what is written is read": func(t *testing.T, fsys FS) {
		f, err := fsys.Create("f")
		must(t, err)
		for _, s := range []string{"one ", "", "two"} {
			n, err := f.Write([]byte(s))
			must(t, err)
			equal(t, n, len(s))
		}
		equal(t, size(t, f), 7)
		must(t, f.Sync())
		must(t, f.Close())
		equal(t, get(t, fsys, "f"), "one two")
	},
	"reading at offsets": func(t *testing.T, fsys FS) {
		put(t, fsys, "f", "0123456789")
		f, err := fsys.Open("f")
		must(t, err)
		defer f.Close()
		b := make([]byte, 4)
		n, err := f.ReadAt(b, 3)
		equal(t, fmt.Sprintf("%d %v %s", n, err, b), "4 <nil> 3456")
		n, err = f.ReadAt(b, 6)
		equal(t, fmt.Sprintf("%d %v %s", n, err, b), "4 <nil> 6789")
		n, err = f.ReadAt(b, 8)
		equal(t, fmt.Sprintf("%d %v %s", n, err, b[:n]), "2 EOF 89")
		n, err = f.ReadAt(b, 10)
		equal(t, fmt.Sprint(n, err), "0 EOF")
		n, err = f.ReadAt(b, 11)
		equal(t, fmt.Sprint(n, err), "0 EOF")
		n, err = f.ReadAt(nil, 0)
		equal(t, fmt.Sprint(n, err), "0 <nil>")
		_, err = f.ReadAt(b, -1)
		fails(t, err, nil)
	},
	"a read does not share the caller's bytes": func(t *testing.T, fsys FS) {
		f, err := fsys.Create("f")
		must(t, err)
		defer f.Close()
		b := []byte("abc")
		_, err = f.Write(b[:2])
		must(t, err)
		b[0] = 'X'
		equal(t, string(b), "Xbc")
		got := make([]byte, 2)
		_, err = f.ReadAt(got, 0)
		must(t, err)
		got[1] = 'Y'
		equal(t, get(t, fsys, "f"), "ab")
	},
	"a file from Open is not written": func(t *testing.T, fsys FS) {
		put(t, fsys, "f", "abc")
		f, err := fsys.Open("f")
		must(t, err)
		defer f.Close()
		_, err = f.Write([]byte("x"))
		fails(t, err, nil)
		equal(t, get(t, fsys, "f"), "abc")
	},
	"append goes on behind the end": func(t *testing.T, fsys FS) {
		_, err := fsys.Append("f")
		fails(t, err, fs.ErrNotExist)
		put(t, fsys, "f", "one ")
		for _, s := range []string{"two ", "three"} {
			f, err := fsys.Append("f")
			must(t, err)
			_, err = f.Write([]byte(s))
			must(t, err)
			must(t, f.Sync())
			must(t, f.Close())
		}
		equal(t, get(t, fsys, "f"), "one two three")
	},
	"create truncates": func(t *testing.T, fsys FS) {
		put(t, fsys, "f", "long contents")
		put(t, fsys, "f", "short")
		equal(t, get(t, fsys, "f"), "short")
	},
	"missing": func(t *testing.T, fsys FS) {
		_, err := fsys.Open("f")
		fails(t, err, fs.ErrNotExist)
		contains(t, err, "f")
		_, err = fsys.Create("no/f")
		fails(t, err, fs.ErrNotExist)
		fails(t, fsys.Remove("f"), fs.ErrNotExist)
		fails(t, fsys.Rename("f", "g"), fs.ErrNotExist)
		fails(t, fsys.SyncDir("no"), fs.ErrNotExist)
		_, err = fsys.List("no")
		fails(t, err, fs.ErrNotExist)
		put(t, fsys, "f", "")
		fails(t, fsys.Rename("f", "no/f"), fs.ErrNotExist)
	},
	"a folder is no file": func(t *testing.T, fsys FS) {
		must(t, fsys.MkdirAll("d"))
		put(t, fsys, "f", "")
		for _, name := range []string{"d", "."} {
			_, err := fsys.Open(name)
			fails(t, err, fs.ErrInvalid)
			_, err = fsys.Create(name)
			fails(t, err, fs.ErrInvalid)
			fails(t, fsys.Remove(name), fs.ErrInvalid)
			fails(t, fsys.Rename(name, "e"), fs.ErrInvalid)
			fails(t, fsys.Rename("f", name), fs.ErrInvalid)
		}
		equal(t, list(t, fsys, "."), "d/ f")
	},
	"a file is no folder": func(t *testing.T, fsys FS) {
		put(t, fsys, "f", "")
		fails(t, fsys.MkdirAll("f"), nil)
		fails(t, fsys.MkdirAll("f/g"), nil)
		_, err := fsys.List("f")
		fails(t, err, nil)
		_, err = fsys.Create("f/g")
		fails(t, err, nil)
		_, err = fsys.Open("f/g")
		fails(t, err, nil)
	},
	"names stay in the tree": func(t *testing.T, fsys FS) {
		put(t, fsys, "f", "")
		for _, bad := range []string{"", "/", "/f", "../f", "a/../f", "./f", "f/", "a//f"} {
			_, err := fsys.Open(bad)
			fails(t, err, fs.ErrInvalid)
			_, err = fsys.Create(bad)
			fails(t, err, fs.ErrInvalid)
			_, err = fsys.List(bad)
			fails(t, err, fs.ErrInvalid)
			fails(t, fsys.Remove(bad), fs.ErrInvalid)
			fails(t, fsys.Rename(bad, "g"), fs.ErrInvalid)
			fails(t, fsys.Rename("f", bad), fs.ErrInvalid)
			fails(t, fsys.MkdirAll(bad), fs.ErrInvalid)
			fails(t, fsys.SyncDir(bad), fs.ErrInvalid)
		}
	},
	"rename replaces": func(t *testing.T, fsys FS) {
		must(t, fsys.MkdirAll("a"))
		must(t, fsys.MkdirAll("b"))
		put(t, fsys, "a/new", "new")
		put(t, fsys, "b/old", "old")
		open, err := fsys.Open("b/old")
		must(t, err)
		defer open.Close()
		must(t, fsys.Rename("a/new", "b/old"))
		equal(t, list(t, fsys, "a")+"|"+list(t, fsys, "b"), "|old")
		equal(t, get(t, fsys, "b/old"), "new")
		equal(t, read(t, open), "old")
		must(t, fsys.Rename("b/old", "b/old"))
		equal(t, get(t, fsys, "b/old"), "new")
	},
	"an open file outlives its name": func(t *testing.T, fsys FS) {
		put(t, fsys, "f", "abc")
		open, err := fsys.Open("f")
		must(t, err)
		must(t, fsys.Remove("f"))
		equal(t, read(t, open), "abc")
		must(t, open.Close())
		equal(t, list(t, fsys, "."), "")
	},
	"list is sorted and says sizes": func(t *testing.T, fsys FS) {
		must(t, fsys.MkdirAll("d/m/n"))
		for _, name := range []string{"d/b", "d/a", "d/z", "d/B"} {
			put(t, fsys, name, name)
		}
		equal(t, list(t, fsys, "d"), "B a b m/ z")
		infos, err := fsys.List("d")
		must(t, err)
		equal(t, infos[1].Size(), int64(3))
		equal(t, infos[1].Mode().IsRegular(), true)
		equal(t, infos[3].Mode().IsDir(), true)
	},
	"folders": func(t *testing.T, fsys FS) {
		must(t, fsys.MkdirAll("."))
		must(t, fsys.MkdirAll("a/b/c"))
		must(t, fsys.MkdirAll("a/b/c"))
		put(t, fsys, "a/b/c/f", "deep")
		must(t, fsys.SyncDir("a/b/c"))
		must(t, fsys.SyncDir("."))
		equal(t, get(t, fsys, "a/b/c/f"), "deep")
	},
	"a closed file": func(t *testing.T, fsys FS) {
		f, err := fsys.Create("f")
		must(t, err)
		must(t, f.Close())
		_, err = f.Write([]byte("x"))
		fails(t, err, fs.ErrClosed)
		_, err = f.ReadAt(make([]byte, 1), 0)
		fails(t, err, fs.ErrClosed)
		_, err = f.Size()
		fails(t, err, fs.ErrClosed)
		fails(t, f.Sync(), fs.ErrClosed)
		fails(t, f.Close(), fs.ErrClosed)
	},
	"write file": func(t *testing.T, fsys FS) {
		must(t, fsys.MkdirAll("d"))
		big := bytes.Repeat([]byte("0123456789"), 30_000)
		for _, contents := range []string{"first", string(big), ""} {
			must(t, WriteFile(fsys, "d", "f", func(w io.Writer) error {
				_, err := io.WriteString(w, contents)
				return err
			}))
			equal(t, get(t, fsys, "d/f") == contents, true)
			equal(t, list(t, fsys, "d"), "f")
		}
	},
	"write file that fails": func(t *testing.T, fsys FS) {
		cause := errors.New("no more ink")
		put(t, fsys, "f", "old")
		err := WriteFile(fsys, ".", "f", func(w io.Writer) error {
			_, _ = io.WriteString(w, "half")
			return cause
		})
		fails(t, err, cause)
		contains(t, err, "f")
		equal(t, list(t, fsys, "."), "f")
		equal(t, get(t, fsys, "f"), "old")
	},
}

func contract(t *testing.T, open func(*testing.T) FS) {
	for name, check := range contractChecks {
		t.Run(name, func(t *testing.T) { check(t, open(t)) })
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fails wants an error; one that wraps want if want is not nil.
func fails(t testing.TB, err, want error) {
	t.Helper()
	if err == nil || want != nil && !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

func contains(t testing.TB, err error, part string) {
	t.Helper()
	if !strings.Contains(err.Error(), part) {
		t.Fatalf("error %q does not say %q", err, part)
	}
}

func equal[T comparable](t testing.TB, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func put(t testing.TB, fsys FS, name, contents string) {
	t.Helper()
	f, err := fsys.Create(name)
	must(t, err)
	_, err = io.WriteString(f, contents)
	must(t, err)
	must(t, f.Close())
}

func size(t testing.TB, f File) int64 {
	t.Helper()
	n, err := f.Size()
	must(t, err)
	return n
}

func read(t testing.TB, f File) string {
	t.Helper()
	b := make([]byte, size(t, f))
	_, err := f.ReadAt(b, 0)
	must(t, err)
	return string(b)
}

func get(t testing.TB, fsys FS, name string) string {
	t.Helper()
	f, err := fsys.Open(name)
	must(t, err)
	defer f.Close()
	return read(t, f)
}

// list is the names of a folder with spaces between, folders with a slash behind.
func list(t testing.TB, fsys FS, dir string) string {
	t.Helper()
	infos, err := fsys.List(dir)
	must(t, err)
	var out []string
	for _, i := range infos {
		name := i.Name()
		if i.IsDir() {
			name += "/"
		}
		out = append(out, name)
	}
	return strings.Join(out, " ")
}
