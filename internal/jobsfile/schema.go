package jobsfile

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Schema returns the JSON schema (draft 7) of a jobs file, for editors. What it
// rejects, Load rejects too; Load knows more.
func Schema() []byte {
	s := schemaOf(reflect.TypeFor[document](), "")
	s["$schema"] = "http://json-schema.org/draft-07/schema#"
	s["title"] = "jobtrail jobs file"
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(err) // maps, texts and numbers always encode
	}
	return append(out, '\n')
}

// In every text a variable may stand.
const (
	variablePattern = `\$\{`
	durationPattern = `^\+?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`
)

func schemaOf(t reflect.Type, tag reflect.StructTag) map[string]any {
	s := make(map[string]any)
	if doc := tag.Get("doc"); doc != "" {
		s["description"] = doc
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	def := tag.Get("default")
	switch {
	case t == durationType:
		s["type"] = "string"
		s["pattern"] = durationPattern + "|" + variablePattern
		setText(s, "default", def)
	case t.Kind() == reflect.String:
		s["type"] = "string"
		setText(s, "default", def)
		switch {
		case tag.Get("enum") != "":
			s["anyOf"] = []any{map[string]any{"enum": strings.Split(tag.Get("enum"), ",")}, map[string]any{"pattern": variablePattern}}
		case tag.Get("pattern") != "":
			s["pattern"] = tag.Get("pattern") + "|" + variablePattern
		case tag.Get("min") != "":
			s["minLength"] = 1
		}
	case t.Kind() == reflect.Int, t.Kind() == reflect.Float64:
		s["type"] = map[reflect.Kind]string{reflect.Int: "integer", reflect.Float64: "number"}[t.Kind()]
		setNumber(s, "default", def)
		setNumber(s, "minimum", tag.Get("min"))
		setNumber(s, "maximum", tag.Get("max"))
	case t.Kind() == reflect.Bool:
		s["type"] = "boolean"
		if def != "" {
			s["default"] = def == "true"
		}
	case t.Kind() == reflect.Slice:
		s["type"] = "array"
		s["minItems"] = 1
		s["items"] = schemaOf(t.Elem(), entryTag(tag))
		if def != "" {
			s["default"] = strings.Fields(def)
		}
	case t.Kind() == reflect.Map:
		s["type"] = "object"
		s["additionalProperties"] = schemaOf(t.Elem(), entryTag(tag))
		if keys := tag.Get("keys"); keys != "" {
			s["propertyNames"] = map[string]any{"pattern": keys}
		}
		setNumber(s, "minProperties", tag.Get("min"))
	case t.Kind() == reflect.Struct:
		s["type"] = "object"
		s["additionalProperties"] = false
		properties := make(map[string]any)
		var required []string
		for _, f := range fieldsOf(t) {
			name := f.Tag.Get("yaml")
			properties[name] = schemaOf(f.Type, f.Tag)
			if f.Tag.Get("required") != "" {
				required = append(required, name)
			}
		}
		s["properties"] = properties
		if required != nil {
			s["required"] = required
		}
		if t == reflect.TypeFor[job]() {
			var one []any
			for _, name := range handlers {
				one = append(one, map[string]any{"required": []string{name}})
			}
			s["oneOf"] = one
		}
	default:
		panic(fmt.Sprintf("jobsfile: no schema of a %s", t))
	}
	return s
}

func setText(s map[string]any, name, v string) {
	if v != "" {
		s[name] = v
	}
}

func setNumber(s map[string]any, name, v string) {
	if n, err := strconv.ParseFloat(v, 64); err == nil {
		s[name] = n
	}
}

// Reference returns every key of a jobs file as rows of Markdown tables: first
// the keys at the top, then those of defaults and types, of http and of exec.
func Reference() []string {
	var top, shared, both []string
	for _, row := range rows(reflect.TypeFor[document](), "") {
		if !strings.HasPrefix(row, "| `defaults.") {
			top = append(top, row)
		}
	}
	shared = rows(reflect.TypeFor[settings](), "")
	for _, row := range rows(reflect.TypeFor[job](), "") {
		if !slices.Contains(shared, row) {
			both = append(both, row)
		}
	}
	own := slices.DeleteFunc(both, func(row string) bool { return strings.HasPrefix(row, "| `http.") || strings.HasPrefix(row, "| `exec.") })
	tables := [][]string{top, shared, own, rows(reflect.TypeFor[HTTP](), ""), rows(reflect.TypeFor[Exec](), "")}
	out := make([]string, len(tables))
	for i, t := range tables {
		out[i] = "| key | type | default | meaning |\n|---|---|---|---|\n" + strings.Join(t, "")
	}
	return out
}

func rows(t reflect.Type, prefix string) []string {
	var out []string
	for _, f := range fieldsOf(t) {
		name := join(prefix, f.Tag.Get("yaml"))
		ft := f.Type
		if ft.Kind() == reflect.Pointer {
			ft = ft.Elem()
		}
		def := f.Tag.Get("default")
		switch {
		case f.Tag.Get("required") != "":
			def = "required"
		case def != "":
			def = "`" + def + "`"
		}
		out = append(out, fmt.Sprintf("| `%s` | %s | %s | %s |\n", name, typeText(ft, f.Tag), def, strings.ReplaceAll(f.Tag.Get("doc"), "|", `\|`)))
		if ft.Kind() == reflect.Struct {
			out = append(out, rows(ft, name)...)
		}
	}
	return out
}

func typeText(t reflect.Type, tag reflect.StructTag) string {
	bounds := ""
	if min, max := tag.Get("min"), tag.Get("max"); max != "" {
		bounds = ", " + min + " to " + max
	} else if min != "" {
		bounds = ", at least " + min
	}
	switch {
	case t == durationType:
		return "duration" + bounds
	case t.Kind() == reflect.Int:
		return "whole number" + bounds
	case t.Kind() == reflect.Float64:
		return "number" + bounds
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Slice:
		return "list of " + typeText(t.Elem(), "") + "s"
	case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Struct:
		return "mapping of names to types"
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.Int:
		return "mapping of numbers to " + typeText(t.Elem(), tag)
	case t.Kind() == reflect.Map:
		return "mapping of names to texts"
	case t.Kind() == reflect.Struct:
		return "mapping"
	case tag.Get("enum") != "":
		return strings.ReplaceAll(tag.Get("enum"), ",", ", ")
	}
	return "text"
}
