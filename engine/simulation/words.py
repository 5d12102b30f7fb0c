"""The words that invented people, places and doctors are made of; none is taken from records of any kind."""

from typing import Final, NamedTuple

BEGINNINGS: Final = (
    *("Alder", "Birch", "Cald", "Dray", "Elm", "Fenn", "Gorse", "Harrow", "Inger", "Jas", "Kess", "Lark", "Marr"),
    *("Nether", "Oster", "Pell", "Quarr", "Rook", "Sedge", "Thorn", "Ulver", "Vane", "Wold", "Yarrow"),
)
ENDINGS: Final = ("by", "combe", "den", "field", "gate", "ham", "lund", "mere", "ock", "ridge", "stow", "ton", "well")
MARKED_FAMILIES: Final = (
    *("Brünnel", "Çelmar", "Dørvik", "Estévane", "Fjällmark", "Größner", "Höglinde", "Ibáñal", "Jørnsund"),
    *("Lefèvrin", "Møllgaard", "Núñavar", "Peñaluz", "Rökdal", "Sørlie", "Þormar", "Ångvist"),
)
"""Families whose names ASCII cannot write, ISO 8859-1 can."""

GIVEN: Final = {
    "F": (
        *("Amara", "Brigid", "Celeste", "Delia", "Elowen", "Fern", "Greta", "Hana", "Imogen", "Joss", "Kaya", "Linnea"),
        *("Maren", "Noor", "Odette", "Petra", "Rosalind", "Saskia", "Tamsin", "Una", "Vesna", "Zoë", "Renée", "Söde"),
    ),
    "M": (
        *("Anselm", "Bastian", "Corin", "Dorian", "Emrys", "Felix", "Gideon", "Hugo", "Idris", "Jasper", "Kit", "Leif"),
        *("Milo", "Nils", "Orson", "Piers", "Quill", "Rafe", "Stellan", "Tobias", "Viggo", "Wystan", "André", "Jörn"),
    ),
}
SECOND: Final = ("", "", "", "Ash", "Bay", "Cole", "Dee", "Fay", "Lane", "Rae", "Sol", "Vale")

# A family and a given name in Latin letters, and the same two in the writing of the person's own language.
WRITTEN_OTHERWISE: Final = (
    (("Morisawa", "Hanae"), ("森沢", "花恵")),
    (("Kitahama", "Ren"), ("北浜", "蓮")),
    (("Linwei", "Mingzhu"), ("林魏", "明珠")),
    (("Baranovka", "Darya"), ("Барановка", "Дарья")),
    (("Papadelis", "Eleni"), ("Παπαδέλης", "Ελένη")),
)

STREETS: Final = (
    *("Alder Way", "Brook Street", "Canal Row", "Dovecote Lane", "Elm Terrace", "Ferry Road", "Granary Court"),
    *("Heron Close", "Ivy Passage", "Juniper Drive", "Kiln Yard", "Lantern Hill", "Mill Pond Road", "Orchard Rise"),
)


class City(NamedTuple):
    """An invented city; its ZIP code is one that was never given out."""

    name: str
    state: str
    code: str
    county: str


CITIES: Final = (
    City("Riverbend", "OR", "00101", "Alderside"),
    City("Lakeside Falls", "OR", "00117", "Alderside"),
    City("Saint Agnes Ferry", "WA", "00204", "Northmarch"),
    City("Ostwick", "WA", "00233", "Northmarch"),
    City("Pinnacle Mills", "OR", "00148", "Sedgemoor"),
    City("Quarry Point", "ID", "00372", "Cold Spring"),
)

INSURERS: Final = (
    ("7781", "RIVERBEND MUTUAL ASSURANCE", "PPO^Preferred Provider^L"),
    ("4402", "HARROW & VALE HEALTH", "HMO^Maintenance^L"),
    ("9013", "NORTHMARCH COUNTY PLAN", "CTY^County Plan^L"),
)
ALLERGENS: Final = (
    ("DA", "1001^PENICILLIN^L", "RASH"),
    ("DA", "1044^SULFONAMIDE^L", "HIVES"),
    ("FA", "2010^PEANUT^L", "SWELLING OF THE LIPS"),
    ("FA", "2023^SHELLFISH^L", "NAUSEA"),
    ("EA", "3005^GRASS POLLEN^L", "SNEEZING"),
    ("MA", "4002^LATEX^L", ""),
)
DIAGNOSES: Final = (
    "I10^Essential (primary) hypertension^I10",
    "J18.9^Pneumonia, unspecified organism^I10",
    "S72.001A^Fracture of unspecified part of neck of right femur^I10",
    "K35.80^Unspecified acute appendicitis^I10",
    "E11.9^Type 2 diabetes mellitus without complications^I10",
    "R07.9^Chest pain, unspecified^I10",
    "N39.0^Urinary tract infection, site not specified^I10",
    "S06.0X0A^Concussion without loss of consciousness^I10",
)
BORN_DIAGNOSIS: Final = "Z38.00^Single liveborn infant, delivered vaginally^I10"
TWIN_DIAGNOSIS: Final = "Z38.30^Twin liveborn infant, delivered vaginally^I10"
DELIVERY_DIAGNOSIS: Final = "O80^Encounter for full-term uncomplicated delivery^I10"
PROCEDURES: Final = (
    "0DTJ4ZZ^Resection of appendix, percutaneous endoscopic^I10P",
    "0SR901A^Replacement of right hip joint with metal synthetic substitute^I10P",
    "B24BZZZ^Ultrasonography of heart with aorta^I10P",
    "4A023N7^Measurement of cardiac sampling and pressure, left heart^I10P",
)
RELATIONS: Final = ("SPO", "CHD", "PAR", "SIB", "FND", "EMC")
MARITAL: Final = ("S", "M", "M", "D", "W")
RACES: Final = ("2106-3^White^HL70005", "2054-5^Black or African American^HL70005", "2028-9^Asian^HL70005", "")
RELIGIONS: Final = ("", "", "CHR", "JEW", "MOS", "BUD")
LANGUAGES: Final = ("EN", "EN", "EN", "ES", "ZH", "RU")
SERVICES: Final = ("MED", "SUR", "CAR", "URO", "PUL")
