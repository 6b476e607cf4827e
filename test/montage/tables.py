"""tables.py sort TABLE: the rows of a table of mImgtbl by name, numbered anew: it has them in the order of the directory.
tables.py fits DIFFS SAID: from the table of differences and what mFitplane has said of each, the table that mBgModel takes."""
import re, sys

if sys.argv[1] == "sort":
    lines = open(sys.argv[2]).read().splitlines()
    head = [line for line in lines if line[:1] in "\\|"]
    rows = sorted((line for line in lines if line[:1] not in "\\|"), key=lambda line: line.split()[-1])
    width = head[1].index("|", 1)
    with open(sys.argv[2], "w") as out:
        out.write("\n".join(head + ["%*d%s" % (width, i, row[width:]) for i, row in enumerate(rows)]) + "\n")
else:
    names = "a b c crpix1 crpix2 xmin xmax ymin ymax xcenter ycenter npixel rms boxx boxy boxwidth boxheight boxang".split()
    print("|" + "|".join("%16s" % name for name in ["plus", "minus"] + names) + "|")
    for line in open(sys.argv[2]).read().splitlines()[2:]:
        plus, minus, _, _, diff = line.split()
        said = dict(re.findall(r"(\w+)=([-+.e0-9]+)", open("%s/%s" % (sys.argv[3], diff)).read()))
        print(" " + " ".join("%16s" % value for value in [plus, minus] + [said[name] for name in names]))
