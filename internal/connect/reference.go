package connect

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"text/tabwriter"
	"time"
)

// A Variable is one row of a command's environment reference.
type Variable struct {
	Name     string
	Type     string // text, secret, switch (true/false), list (comma-separated), duration, number
	Default  string // empty when there is none
	Required bool
	Meaning  string
}

// Reference lists the variables of config, a struct or a pointer to one, in the
// order of its fields, nested structs included. The tag optional of a nested
// struct says what happens without its required variables, which are not
// required then.
func Reference(config any) []Variable {
	t := reflect.TypeOf(config)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return appendVariables(nil, t)
}

func appendVariables(vars []Variable, t reflect.Type) []Variable {
	for sf := range t.Fields() {
		name, isVar := variableName(sf)
		switch {
		case isVar:
			_, opts, _ := strings.Cut(sf.Tag.Get("env"), ",")
			vars = append(vars, Variable{
				Name:     name,
				Type:     typeName(sf.Type),
				Default:  sf.Tag.Get("envDefault"),
				Required: opts == "required",
				Meaning:  sf.Tag.Get("doc"),
			})
		case sf.Type.Kind() == reflect.Struct && sf.IsExported():
			from := len(vars)
			vars = appendVariables(vars, sf.Type)
			// A command may do without what others need.
			if without := sf.Tag.Get("optional"); without != "" {
				for i := range vars[from:] {
					if v := &vars[from+i]; v.Required {
						v.Required, v.Meaning = false, v.Meaning+" "+without
					}
				}
			}
		}
	}
	return vars
}

func (v Variable) defaultText(none string) string {
	switch {
	case v.Required:
		return "required"
	case v.Default == "":
		return none
	default:
		return v.Default
	}
}

// WriteText writes the variables as an aligned table for a terminal.
func WriteText(w io.Writer, vars []Variable) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "  NAME\tTYPE\tDEFAULT\tMEANING")
	for _, v := range vars {
		fmt.Fprintf(tw, "  %s\t%s\t%s\t%s\n", v.Name, v.Type, v.defaultText("-"), v.Meaning)
	}
	return tw.Flush()
}

// Markdown returns the variables as a Markdown table.
func Markdown(vars []Variable) string {
	var b strings.Builder
	b.WriteString("| variable | type | default | meaning |\n|---|---|---|---|\n")
	for _, v := range vars {
		def := v.defaultText("")
		if def != "" && !v.Required {
			def = "`" + def + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", v.Name, v.Type, def, strings.ReplaceAll(v.Meaning, "|", `\|`))
	}
	return b.String()
}

func typeName(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[Secret]():
		return "secret"
	case t == reflect.TypeFor[time.Duration]():
		return "duration"
	case t.Kind() == reflect.Bool:
		return "switch"
	case t.Kind() == reflect.Slice:
		return "list"
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Float64:
		return "number"
	default:
		return "text"
	}
}
