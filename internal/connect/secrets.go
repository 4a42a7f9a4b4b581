package connect

import "reflect"

// Secrets returns the values of config's variables of type Secret, nested
// structs included; config is a struct or a pointer to one.
func Secrets(config any) []string {
	v := reflect.ValueOf(config)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	return appendSecrets(nil, v)
}

func appendSecrets(secrets []string, v reflect.Value) []string {
	for sf, field := range v.Fields() {
		switch {
		case !sf.IsExported():
		case sf.Type == reflect.TypeFor[Secret]():
			if s := field.Interface().(Secret).Reveal(); s != "" {
				secrets = append(secrets, s)
			}
		case sf.Type.Kind() == reflect.Struct:
			secrets = appendSecrets(secrets, field)
		}
	}
	return secrets
}
