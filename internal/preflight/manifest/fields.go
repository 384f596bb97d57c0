package manifest

import (
	"reflect"
	"strings"
)

// fieldsOf returns the names of the fields that an object may have below a path; the path "" is the object itself.
type fieldsOf func(path string) []string

// fieldsIn lists the fields of a Go type of the API.
func fieldsIn(t reflect.Type) fieldsOf {
	return func(path string) []string {
		at := t
		for part := range strings.SplitSeq(path, ".") {
			name, _, _ := strings.Cut(part, "[")
			if at = plain(at); at == nil || name == "" {
				break
			}
			at = jsonFields(at)[name]
		}
		var names []string
		for name := range jsonFields(plain(at)) {
			names = append(names, name)
		}
		return names
	}
}

// plain returns the struct that a pointer, a list or a map holds; nil if it holds none.
func plain(t reflect.Type) reflect.Type {
	for t != nil && t.Kind() != reflect.Struct {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			t = t.Elem()
		default:
			return nil
		}
	}
	return t
}

// jsonFields returns a struct's fields by their names in JSON. Fields of embedded structs are included.
func jsonFields(t reflect.Type) map[string]reflect.Type {
	all := map[string]reflect.Type{}
	if t == nil {
		return all
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "" && f.Anonymous:
			for inner, it := range jsonFields(plain(f.Type)) {
				all[inner] = it
			}
		case name != "" && name != "-":
			all[name] = f.Type
		}
	}
	return all
}

// Nearest returns the name that is most like the given one; "" if none is.
func Nearest(name string, names []string) string {
	best, least := "", max(2, len(name)/3)+1
	for _, n := range names {
		d := distance(strings.ToLower(name), strings.ToLower(n))
		if d < least || d == least && best != "" && n < best {
			best, least = n, d
		}
	}
	return best
}

// distance returns how many letters must be added, dropped, changed or swapped to turn one word into the other.
func distance(a, b string) int {
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(last[j]+1, row[j-1]+1, change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
