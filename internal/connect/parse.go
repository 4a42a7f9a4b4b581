package connect

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/caarlos0/env/v10"
)

// A Validator is a configuration struct that checks itself once its variables
// are read. The error may join several.
type Validator interface{ Validate() error }

// Parse fills the struct that target points to, nested structs included, from
// environ ("NAME=value" lines as of os.Environ; a variable that is set but
// empty counts as not set). It returns every problem at once, each naming its
// variable: values that do not parse, required ones that are missing, and what
// the Validate methods of target and of its nested structs report.
func Parse(environ []string, target any) error {
	v := reflect.ValueOf(target)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("parsing the environment into %T: want a pointer to a struct", target)
	}
	vars := make(map[string]string, len(environ))
	for _, line := range environ {
		if name, value, ok := strings.Cut(line, "="); ok && name != "" && value != "" {
			vars[name] = value
		}
	}
	var problems []error
	fill(v.Elem(), vars, &problems, new([]string))
	return errors.Join(problems...)
}

// fill also notes the names of the variables without a value.
func fill(v reflect.Value, vars map[string]string, problems *[]error, unread *[]string) {
	for i := range v.NumField() {
		sf := v.Type().Field(i)
		name, isVar := variableName(sf)
		switch {
		case isVar:
			if err := fillField(v.Field(i), sf, name, vars); err != nil {
				*problems = append(*problems, err)
				*unread = append(*unread, name)
			}
		case sf.Type.Kind() == reflect.Struct && sf.IsExported():
			fill(v.Field(i), vars, problems, unread)
		}
	}
	val, ok := reflect.TypeAssert[Validator](v.Addr())
	if !ok {
		return
	}
	for _, problem := range apart(val.Validate()) {
		// What is said of a variable without a value is about a value nobody gave;
		// an embedded struct's method is its container's, too.
		text := problem.Error()
		if !slices.ContainsFunc(*unread, func(name string) bool { return names(text, name) }) &&
			!slices.ContainsFunc(*problems, func(e error) bool { return e.Error() == text }) {
			*problems = append(*problems, problem)
		}
	}
}

// apart returns the problems that err joins, one by one.
func apart(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || err.Error() != errors.Join(joined.Unwrap()...).Error() {
		return []error{err}
	}
	var problems []error
	for _, e := range joined.Unwrap() {
		problems = append(problems, apart(e)...)
	}
	return problems
}

// names reports whether text names the variable, and not only one whose name is
// longer.
func names(text, variable string) bool {
	part := func(c byte) bool { return c == '_' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' }
	for {
		i := strings.Index(text, variable)
		if i < 0 {
			return false
		}
		before, after := text[:i], text[i+len(variable):]
		if (before == "" || !part(before[len(before)-1])) && (after == "" || !part(after[0])) {
			return true
		}
		text = after
	}
}

// fillField parses one variable in a struct of its own, because the env
// package's errors name the Go field, which is ambiguous across structs.
func fillField(field reflect.Value, sf reflect.StructField, name string, vars map[string]string) error {
	one := reflect.New(reflect.StructOf([]reflect.StructField{{Name: sf.Name, Type: sf.Type, Tag: sf.Tag}}))
	err := env.ParseWithOptions(one.Interface(), env.Options{Environment: vars})
	if err == nil {
		field.Set(one.Elem().Field(0))
		return nil
	}
	// An AggregateError does not unwrap; of one field it holds one error.
	if all, ok := errors.AsType[env.AggregateError](err); ok && len(all.Errors) > 0 {
		err = all.Errors[0]
	}
	if _, missing := errors.AsType[env.EnvVarIsNotSetError](err); missing {
		return fmt.Errorf("%s: is required and not set", name)
	}
	if _, ok := errors.AsType[env.ParseError](err); ok {
		return fmt.Errorf("%s is %q, it must be %s", name, vars[name], wanted(sf.Type))
	}
	return fmt.Errorf("%s: %w", name, err)
}

// wanted says what a variable of the type must be.
func wanted(t reflect.Type) string {
	switch typeName(t) {
	case "switch":
		return "true or false"
	case "duration":
		return "a duration such as 500ms, 30s or 1h30m"
	case "number":
		if t.Kind() < reflect.Float32 {
			return "a whole number"
		}
		return "a number"
	}
	return "a " + typeName(t)
}

// variableName returns the environment variable of a field.
func variableName(sf reflect.StructField) (string, bool) {
	name, _, _ := strings.Cut(sf.Tag.Get("env"), ",")
	return name, name != "" && sf.IsExported()
}
