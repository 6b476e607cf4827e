"""images.py DIRECTORY SIDE PIXELS: SIDE x SIDE images that overlap, of stars and each with a background plane of its own; headers of the mosaic and of
four tiles of it."""
import array, math, random, sys
top, side, pixels = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
random.seed(7)
step = pixels * 0.8
scale = 0.001
width = int(step * (side - 1) + pixels) + 40
stars = [(random.uniform(0, width), random.uniform(0, width), random.uniform(5, 500)) for _ in range(40 * side * side)]


def cards(naxis1, naxis2, crpix1, crpix2):
    values = [("SIMPLE", "T"), ("BITPIX", "-64"), ("NAXIS", "2"), ("NAXIS1", naxis1), ("NAXIS2", naxis2), ("CTYPE1", "'RA---TAN'"), ("CTYPE2", "'DEC--TAN'"),
        ("CRVAL1", "10.0"), ("CRVAL2", "20.0"), ("CRPIX1", crpix1), ("CRPIX2", crpix2), ("CDELT1", -scale), ("CDELT2", scale), ("CROTA2", "0.0"), ("EQUINOX", "2000.0")]
    return ["%-8s= %20s" % value for value in values] + ["END"]


for i in range(side * side):
    left, bottom = (i % side) * step + 0.3 * (i % 3), (i // side) * step + 0.3 * (i % 2)
    a, b, c = random.uniform(-.01, .01), random.uniform(-.01, .01), random.uniform(0, 20)
    rows = [[a * x + b * y + c for x in range(pixels)] for y in range(pixels)]
    for sx, sy, light in stars:
        for y in range(max(0, int(sy - bottom) - 4), min(pixels, int(sy - bottom) + 5)):
            for x in range(max(0, int(sx - left) - 4), min(pixels, int(sx - left) + 5)):
                rows[y][x] += light * math.exp(-((x + left - sx) ** 2 + (y + bottom - sy) ** 2) / 3)
    data = array.array("d", [value for row in rows for value in row])
    data.byteswap()
    head = "".join("%-80s" % card for card in cards(pixels, pixels, width / 2 - left, width / 2 - bottom))
    with open("%s/raw/%02d.fits" % (top, i), "wb") as out:
        out.write(head.ljust(2880).encode() + data.tobytes())
        out.write(b"\0" * (-out.tell() % 2880))


def template(name, left, bottom, right, top_):
    with open(name, "w") as out:
        out.write("\n".join(cards(right - left, top_ - bottom, width / 2 - left, width / 2 - bottom)) + "\n")


template(top + "/mosaic.hdr", 0, 0, width, width)
for i in range(4):
    x, y = i % 2, i // 2
    half = width // 2
    template("%s/tile%d.hdr" % (top, i), x * half, y * half, (x + 1) * half, (y + 1) * half)
