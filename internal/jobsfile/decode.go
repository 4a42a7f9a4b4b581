package jobsfile

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

var durationType = reflect.TypeFor[time.Duration]()

// A decoder fills the types of document.go from values.
type decoder struct{ *report }

// decode fills target from v. tag is that of the field which target is, or
// which contains it as an entry.
func (d decoder) decode(v *value, key string, target reflect.Value, tag reflect.StructTag) {
	if _, ok := d.at[key]; !ok {
		d.at[key] = v.pos
	}
	if d.bad[key] {
		return
	}
	t := target.Type()
	switch {
	case t.Kind() == reflect.Pointer:
		target.Set(reflect.New(t.Elem()))
		fill(target.Elem())
		d.decode(v, key, target.Elem(), tag)
	case t == durationType:
		d.duration(v, key, target, tag)
	case t.Kind() == reflect.String:
		if d.want(v, key, text) {
			d.text(v, key, target, tag)
		}
	case t.Kind() == reflect.Int:
		if d.want(v, key, integer) {
			d.integer(v, key, target, tag)
		}
	case t.Kind() == reflect.Float64:
		if d.want(v, key, float, integer) {
			d.float(v, key, target, tag)
		}
	case t.Kind() == reflect.Bool:
		if d.want(v, key, boolean) {
			target.SetBool(v.text == "true")
		}
	case t.Kind() == reflect.Slice:
		if d.want(v, key, list) {
			d.list(v, key, target, tag)
		}
	case t.Kind() == reflect.Map:
		if d.want(v, key, mapping) {
			d.dictionary(v, key, target, tag)
		}
	case t.Kind() == reflect.Struct:
		if d.want(v, key, mapping) {
			d.object(v, key, target)
		}
	default:
		panic(fmt.Sprintf("jobsfile: no way to decode a %s", t))
	}
}

// want reports whether v is of one of the kinds, and complains where not.
func (d decoder) want(v *value, key string, kinds ...kind) bool {
	if slices.Contains(kinds, v.kind) {
		return true
	}
	hint := ""
	if kinds[0] == text && (v.kind == integer || v.kind == float || v.kind == boolean) {
		hint = fmt.Sprintf("; write it in quotes: \"%s\"", v.shown)
	}
	d.add(key, "want %s, got %s%s", kinds[0], v.describe(), hint)
	return false
}

func (v *value) describe() string {
	if v.shown != "" {
		return v.shown
	}
	return string(v.kind)
}

func (d decoder) duration(v *value, key string, target reflect.Value, tag reflect.StructTag) {
	dur, err := time.ParseDuration(v.text)
	if v.kind != text || err != nil {
		d.add(key, "want a duration such as 30s or 5m, got %s", v.describe())
		return
	}
	if least, err := time.ParseDuration(tag.Get("min")); err == nil && dur < least {
		d.add(key, "must be at least %s, got %s", tag.Get("min"), v.shown)
		return
	}
	target.SetInt(int64(dur))
}

func (d decoder) text(v *value, key string, target reflect.Value, tag reflect.StructTag) {
	if enum := tag.Get("enum"); enum != "" && !slices.Contains(strings.Split(enum, ","), v.text) {
		d.add(key, "want %s, got %s", strings.ReplaceAll(enum, ",", " or "), v.shown)
		return
	}
	if p := tag.Get("pattern"); p != "" && !regexp.MustCompile(p).MatchString(v.text) {
		d.add(key, "want %s, got %s", tag.Get("want"), v.shown)
		return
	}
	if tag.Get("min") != "" && v.text == "" {
		d.add(key, "must not be empty")
		return
	}
	target.SetString(v.text)
}

func (d decoder) integer(v *value, key string, target reflect.Value, tag reflect.StructTag) {
	n, err := strconv.ParseInt(v.text, 10, 32)
	if err != nil {
		d.add(key, "must be at most %d, got %s", math.MaxInt32, v.shown)
		return
	}
	if d.bounded(float64(n), v, key, tag) {
		target.SetInt(n)
	}
}

func (d decoder) float(v *value, key string, target reflect.Value, tag reflect.StructTag) {
	f, err := strconv.ParseFloat(v.text, 64)
	if err != nil {
		d.add(key, "want a number, got %s", v.shown)
		return
	}
	if d.bounded(f, v, key, tag) {
		target.SetFloat(f)
	}
}

func (d decoder) bounded(f float64, v *value, key string, tag reflect.StructTag) bool {
	if least, err := strconv.ParseFloat(tag.Get("min"), 64); err == nil && !(f >= least) {
		d.add(key, "must be at least %s, got %s", tag.Get("min"), v.shown)
		return false
	}
	if most, err := strconv.ParseFloat(tag.Get("max"), 64); err == nil && !(f <= most) {
		d.add(key, "must be at most %s, got %s", tag.Get("max"), v.shown)
		return false
	}
	return true
}

func (d decoder) list(v *value, key string, target reflect.Value, tag reflect.StructTag) {
	if len(v.items) == 0 {
		d.add(key, "must not be empty")
		return
	}
	s := reflect.MakeSlice(target.Type(), len(v.items), len(v.items))
	for i, entry := range v.items {
		d.decode(entry, item(key, i), s.Index(i), entryTag(tag))
	}
	target.Set(s)
}

func (d decoder) dictionary(v *value, key string, target reflect.Value, tag reflect.StructTag) {
	if len(v.fields) == 0 && tag.Get("min") != "" {
		d.add(key, "must not be empty")
		return
	}
	t := target.Type()
	m := reflect.MakeMapWithSize(t, len(v.fields))
	for _, f := range v.fields {
		path := join(key, f.name)
		if p := tag.Get("keys"); p != "" && !regexp.MustCompile(p).MatchString(f.name) {
			d.addAt(f.pos, path, "want %s, got %q", tag.Get("wantkeys"), f.name)
			continue
		}
		name := reflect.ValueOf(f.name)
		if t.Key().Kind() == reflect.Int {
			n, _ := strconv.Atoi(f.name) // the pattern lets only numbers through
			name = reflect.ValueOf(n)
		}
		entry := reflect.New(t.Elem()).Elem()
		fill(entry)
		d.placeEntry(path, f)
		d.decode(f.value, path, entry, entryTag(tag))
		m.SetMapIndex(name, entry)
	}
	target.Set(m)
}

// entryTag is what a field's tag says of each entry of its list or map; min of
// a list of durations holds for them, else it is the number of entries.
func entryTag(tag reflect.StructTag) reflect.StructTag {
	var b strings.Builder
	for _, name := range []string{"pattern", "want", "enum", "min"} {
		if v := tag.Get(name); v != "" && (name != "min" || strings.HasSuffix(v, "s")) {
			fmt.Fprintf(&b, "%s:%q ", name, v)
		}
	}
	return reflect.StructTag(b.String())
}

func (d decoder) object(v *value, key string, target reflect.Value) {
	known := fieldsOf(target.Type())
	for _, f := range v.fields {
		i := slices.IndexFunc(known, func(k reflect.StructField) bool { return k.Tag.Get("yaml") == f.name })
		if i < 0 {
			names := make([]string, len(known))
			for j, k := range known {
				names[j] = k.Tag.Get("yaml")
			}
			d.addAt(f.pos, join(key, f.name), "the key is not known here; known are %s", strings.Join(names, ", "))
			continue
		}
		d.placeEntry(join(key, f.name), f)
		d.decode(f.value, join(key, f.name), target.FieldByIndex(known[i].Index), known[i].Tag)
	}
	for _, k := range known {
		name := k.Tag.Get("yaml")
		if k.Tag.Get("required") != "" && !slices.ContainsFunc(v.fields, func(f field) bool { return f.name == name }) {
			d.add(join(key, name), "the key is missing")
		}
	}
}

// placeEntry makes the key the place of what has parts or nothing; the place of
// a scalar is its own.
func (d decoder) placeEntry(path string, f field) {
	if f.value.shown == "" {
		d.at[path] = f.pos
	}
}

// fill sets the defaults of a struct and of the structs in it. Where a field is
// a pointer, nil has to stay.
func fill(target reflect.Value) {
	if target.Kind() != reflect.Struct {
		return
	}
	for _, f := range fieldsOf(target.Type()) {
		v, def := target.FieldByIndex(f.Index), f.Tag.Get("default")
		switch {
		case v.Kind() == reflect.Struct:
			fill(v)
		case def == "" || v.Kind() == reflect.Pointer:
		case v.Kind() == reflect.String:
			v.SetString(def)
		case v.Type() == durationType:
			v.SetInt(int64(mustDuration(def)))
		case v.Kind() == reflect.Int:
			n, err := strconv.Atoi(def)
			if err != nil {
				panic(err)
			}
			v.SetInt(int64(n))
		case v.Type() == reflect.SliceOf(durationType):
			for s := range strings.FieldsSeq(def) {
				v.Set(reflect.Append(v, reflect.ValueOf(mustDuration(s))))
			}
		default:
			panic(fmt.Sprintf("jobsfile: no way to set a default of a %s", v.Type()))
		}
	}
}

func mustDuration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		panic(err)
	}
	return d
}

// fieldsOf returns the fields of a struct that are keys, those of embedded
// structs included.
func fieldsOf(t reflect.Type) []reflect.StructField {
	var fields []reflect.StructField
	for _, f := range reflect.VisibleFields(t) {
		if f.Tag.Get("yaml") != "" {
			fields = append(fields, f)
		}
	}
	return fields
}
