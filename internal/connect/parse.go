package connect

import (
	"errors"
	"fmt"
	"reflect"
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
	fill(v.Elem(), vars, &problems)
	return errors.Join(problems...)
}

func fill(v reflect.Value, vars map[string]string, problems *[]error) {
	before := len(*problems)
	for i := range v.NumField() {
		sf := v.Type().Field(i)
		name, isVar := variableName(sf)
		switch {
		case isVar:
			if err := fillField(v.Field(i), sf, vars); err != nil {
				*problems = append(*problems, fmt.Errorf("%s: %w", name, err))
			}
		case sf.Type.Kind() == reflect.Struct && sf.IsExported():
			fill(v.Field(i), vars, problems)
		}
	}
	// A struct whose variables did not parse is not checked further: the
	// complaints would be about values nobody gave.
	if len(*problems) > before {
		return
	}
	if val, ok := reflect.TypeAssert[Validator](v.Addr()); ok {
		if err := val.Validate(); err != nil {
			*problems = append(*problems, err)
		}
	}
}

// fillField parses one variable in a struct of its own, because the env
// package's errors name the Go field, which is ambiguous across structs.
func fillField(field reflect.Value, sf reflect.StructField, vars map[string]string) error {
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
		return errors.New("is required and not set")
	}
	if parse, ok := errors.AsType[env.ParseError](err); ok {
		return fmt.Errorf("want %s: %w", typeName(sf.Type), parse.Err)
	}
	return err
}

// variableName returns the environment variable of a field.
func variableName(sf reflect.StructField) (string, bool) {
	name, _, _ := strings.Cut(sf.Tag.Get("env"), ",")
	return name, name != "" && sf.IsExported()
}
