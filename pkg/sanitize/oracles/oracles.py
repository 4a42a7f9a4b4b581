"""Judge `jobtrail sanitize` by tools that know nothing of it.

usage: oracles.py PROGRAM TEMPLATES

PROGRAM is the jobtrail binary, TEMPLATES the templates.txt of
presidio-evaluator. Sentences are filled with personal data of Faker; texts
with secrets are swept by detect-secrets and CredSweeper before and after.
Exits with 1 when too much is left.
"""

import json
import random
import re
import string
import subprocess
import sys
import tempfile
from pathlib import Path

from faker import Faker

LOCALES = ["en_US", "en_GB", "de_DE", "fr_FR", "es_ES", "it_IT", "nl_NL"]
# Share of values that must be gone. Names and addresses have no pattern.
REQUIRED = {"credit_card_number": 1, "email": 1, "iban": 1, "ssn": 0.97, "ip_address": 1, "phone_number": 0.97}
PHONE_WORDS = re.compile(r"\b(call|tel|telephone|phone|sms|mobile|fax)\b", re.I)


def sanitise(program, texts):
    """Return what PROGRAM keeps of each text."""
    lines = "".join(json.dumps(t) + "\n" for t in texts)
    done = subprocess.run([program, "sanitize", "--jsonl"], input=lines, capture_output=True, text=True, check=True, timeout=300)
    out = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(out) == len(texts), (len(out), len(texts))
    return out


def sentences(templates, count):
    """Return (text, [(entity, value)]) with values of Faker."""
    fakers = [Faker(loc) for loc in LOCALES]
    for n, f in enumerate(fakers):
        f.seed_instance(n)
    made = []
    for n in range(count):
        template = templates[n % len(templates)]
        fake = fakers[random.randrange(len(fakers))]
        values = []

        def fill(match):
            entity = match.group(1)
            if entity == "ip_address":
                value = fake.ipv4_public()
            elif entity == "ssn":
                value = fakers[0].ssn()
            elif entity == "credit_card_number":
                value = fake.credit_card_number(random.choice(["visa16", "mastercard", "amex", "discover", "jcb16", "diners"]))
            else:
                value = str(getattr(fake, entity, fake.word)())
            values.append((entity, value))
            return value

        text = re.sub(r"\{\{(\w+)\}\}", fill, template)
        made.append((text, values))
    return made


def report_people(program, templates):
    made = sentences([t for t in templates if any("{{%s}}" % e in t for e in REQUIRED)], 6000)
    total, missed, shown = dict.fromkeys(REQUIRED, 0), dict.fromkeys(REQUIRED, 0), 0
    for (text, values), out in zip(made, sanitise(program, [t for t, _ in made])):
        for entity, value in values:
            if entity not in REQUIRED:
                continue
            if entity == "phone_number":
                at = text.index(value)
                if not value.startswith("+") and not PHONE_WORDS.search(text[max(0, at - 16):at]):
                    continue  # a number among others: nothing says that it is a telephone
            total[entity] += 1
            if value in out:
                missed[entity] += 1
                shown += 1
                if shown <= 12:
                    print("  left:", entity, repr(out[:160]))
    good = True
    print("%-20s %8s %8s %9s %9s" % ("entity", "values", "left", "recall", "required"))
    for entity, need in REQUIRED.items():
        recall = 1 - missed[entity] / max(1, total[entity])
        print("%-20s %8d %8d %8.2f%% %8.2f%%" % (entity, total[entity], missed[entity], 100 * recall, 100 * need))
        good = good and recall >= need and total[entity] > 0
    return good


def draw(n, alphabet=string.ascii_letters + string.digits):
    return "".join(random.choice(alphabet) for _ in range(n))


def secrets(count):
    """Return texts with secrets, made at run time."""
    upper = string.ascii_uppercase + "234567"
    forms = [
        lambda: "db_password = '%s'" % draw(14),
        lambda: 'api_key: "%s"' % draw(32),
        lambda: "dial postgres://svc:%s@db1:5432/app: refused" % draw(12),
        lambda: "AccessDenied for AK" + "IA%s" % draw(16, upper),
        lambda: "push failed: gh" + "p_%s" % draw(36),
        lambda: "token=xox" + "b-%s-%s-%s" % (draw(12, string.digits), draw(12, string.digits), draw(24)),
        lambda: "charge failed: sk_li" + "ve_%s" % draw(24),
        lambda: "Authorization: Bearer ey" + "J%s.ey" % draw(20) + "J%s.%s" % (draw(30), draw(40)),
        lambda: "-----BEGIN RSA PRIV" + "ATE KEY-----\n%s\n-----END RSA PRIVATE KEY-----" % draw(64),
        lambda: "aws_secret_access_key=%s" % draw(40),
        lambda: "AccountKey=%s==;EndpointSuffix=core" % draw(86),
        lambda: '{"client_secret":"%s","n":1}' % draw(30),
    ]
    return [forms[n % len(forms)]() for n in range(count)]


def sweep(path):
    """Return how much detect-secrets and CredSweeper find in a file."""
    here = Path(sys.executable).parent
    done = subprocess.run([here / "detect-secrets", "scan", "--all-files", "--no-verify", path], capture_output=True, text=True, check=True, timeout=300, cwd=path.parent)
    ds = [f for found in json.loads(done.stdout)["results"].values() for f in found]
    result = path.with_suffix(".json")
    subprocess.run([here / "credsweeper", "--path", path, "--save-json", result, "--log", "silence"], capture_output=True, text=True, check=True, timeout=600)
    cs = json.loads(result.read_text()) if result.exists() else []
    return ds, cs


def report_secrets(program):
    texts = secrets(600)
    good = True
    with tempfile.TemporaryDirectory() as folder:
        counts = {}
        for name, lines in (("raw", [t.replace("\n", "\\n") for t in texts]), ("clean", sanitise(program, texts))):
            path = Path(folder, name + ".txt")
            path.write_text("\n".join(lines) + "\n")
            counts[name] = sweep(path)
            print("%-6s %5d texts: detect-secrets finds %4d, CredSweeper %4d" % (name, len(lines), *map(len, counts[name])))
        for found in counts["clean"]:
            for f in found[:6]:
                print("  left:", json.dumps(f)[:240])
            good = good and not found
        good = good and all(len(found) > 100 for found in counts["raw"])
    return good


def main():
    program, templates = sys.argv[1], Path(sys.argv[2]).read_text().splitlines()
    random.seed(11)
    people = report_people(program, [t for t in templates if t.strip()])
    return 0 if report_secrets(program) and people else 1


if __name__ == "__main__":
    sys.exit(main())
