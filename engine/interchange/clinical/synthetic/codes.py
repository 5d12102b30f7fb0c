"""The codes that invented charts are written in: small tables of common facts.

A few common codes each, with their short display texts. SNOMED CT: International Edition, (c) SNOMED International; who
uses it outside its member countries needs its licence. LOINC: (c) Regenstrief Institute, https://loinc.org/license.
RxNorm: US National Library of Medicine, ICD-10-CM, ICD-10-PCS and CVX: US CDC and CMS, all public domain. UCUM: (c)
Regenstrief Institute, https://ucum.org/license. HL7 terminology: CC0. No CPT code is used here: its texts are
licensed.
"""

from typing import Final, NamedTuple

SNOMED: Final = "http://snomed.info/sct"
LOINC: Final = "http://loinc.org"
RXNORM: Final = "http://www.nlm.nih.gov/research/umls/rxnorm"
ICD_10_CM: Final = "http://hl7.org/fhir/sid/icd-10-cm"
ICD_10_PCS: Final = "http://www.cms.gov/Medicare/Coding/ICD10"
CVX: Final = "http://hl7.org/fhir/sid/cvx"
UCUM: Final = "http://unitsofmeasure.org"
TERMINOLOGY: Final = "http://terminology.hl7.org/CodeSystem/"


class Disease(NamedTuple):
    """A disease: its SNOMED CT and ICD-10-CM codes, and what is prescribed for it (codes of MEDICATIONS)."""

    snomed: str
    icd: str
    text: str
    drugs: tuple[str, ...] = ()


class Drug(NamedTuple):
    """A drug as it is prescribed: RxNorm text, dose and its unit, times a day, whether it is inhaled."""

    text: str
    dose: int = 1
    unit: str = "{tablet}"
    a_day: int = 1
    inhaled: bool = False


class Measure(NamedTuple):
    """A laboratory test or vital sign: LOINC code and text, UCUM unit, normal range, decimals."""

    loinc: str
    text: str
    unit: str
    low: float
    high: float
    decimals: int = 0


class LaboratoryPanel(NamedTuple):
    """Tests that are ordered and reported together."""

    loinc: str
    text: str
    tests: tuple[Measure, ...]


CHRONIC: Final = (
    Disease("59621000", "I10", "Essential hypertension", ("314076", "197361", "310798")),
    Disease("44054006", "E11.9", "Diabetes mellitus type 2", ("860975",)),
    Disease("195967001", "J45.909", "Asthma", ("745679", "895994")),
    Disease("55822004", "E78.5", "Hyperlipidemia", ("617310", "312961")),
    Disease("235595009", "K21.9", "Gastroesophageal reflux disease", ("198051",)),
    Disease("35489007", "F32.A", "Depressive disorder", ("312941",)),
    Disease("13645005", "J44.9", "Chronic obstructive lung disease", ("745679",)),
    Disease("40930008", "E03.9", "Hypothyroidism"),
    Disease("49436004", "I48.91", "Atrial fibrillation", ("855332",)),
    Disease("396275006", "M19.90", "Osteoarthritis", ("310965",)),
    Disease("37796009", "G43.909", "Migraine", ("310965",)),
)
ACUTE: Final = (
    Disease("54150009", "J06.9", "Upper respiratory infection"),
    Disease("10509002", "J20.9", "Acute bronchitis"),
    Disease("195662009", "J02.8", "Acute viral pharyngitis", ("313782",)),
    Disease("68566005", "N39.0", "Urinary tract infectious disease", ("308182",)),
    Disease("233604007", "J18.9", "Pneumonia", ("308182",)),
    Disease("161891005", "M54.9", "Backache", ("310965",)),
    Disease("62106007", "S06.0X0A", "Concussion with no loss of consciousness", ("313782",)),
    Disease("44465007", "S93.409A", "Sprain of ankle", ("310965",)),
)
MEDICATIONS: Final = {
    "314076": Drug("lisinopril 10 MG Oral Tablet"),
    "197361": Drug("amlodipine 5 MG Oral Tablet"),
    "310798": Drug("hydrochlorothiazide 25 MG Oral Tablet"),
    "860975": Drug("24 HR metformin hydrochloride 500 MG Extended Release Oral Tablet", a_day=2),
    "617310": Drug("atorvastatin 20 MG Oral Tablet"),
    "312961": Drug("simvastatin 20 MG Oral Tablet"),
    "198051": Drug("omeprazole 20 MG Delayed Release Oral Capsule", unit="{capsule}"),
    "312941": Drug("sertraline 50 MG Oral Tablet"),
    "855332": Drug("warfarin sodium 5 MG Oral Tablet"),
    "310965": Drug("ibuprofen 200 MG Oral Tablet", a_day=3),
    "313782": Drug("acetaminophen 325 MG Oral Tablet", dose=2, a_day=4),
    "308182": Drug("amoxicillin 250 MG Oral Capsule", unit="{capsule}", a_day=3),
    "745679": Drug("200 ACTUAT albuterol 0.09 MG/ACTUAT Metered Dose Inhaler", 2, "{puff}", 4, inhaled=True),
    "895994": Drug(
        "120 ACTUAT fluticasone propionate 0.044 MG/ACTUAT Metered Dose Inhaler", 2, "{puff}", 2, inhaled=True
    ),
    "243670": Drug("aspirin 81 MG Oral Tablet"),
}
WITHOUT_PRESCRIPTION: Final = ("243670", "310965", "313782")
# System, code, text, category, and SNOMED CT code and text of how it shows.
ALLERGIES: Final = (
    (RXNORM, "7980", "penicillin G", "medication", "271807003", "Eruption of skin"),
    (RXNORM, "1191", "aspirin", "medication", "126485001", "Urticaria"),
    (RXNORM, "2670", "codeine", "medication", "422587007", "Nausea"),
    (RXNORM, "10180", "sulfamethoxazole", "medication", "271807003", "Eruption of skin"),
    (SNOMED, "762952008", "Peanut", "food", "39579001", "Anaphylaxis"),
    (SNOMED, "735029006", "Shellfish", "food", "126485001", "Urticaria"),
    (SNOMED, "111088007", "Latex", "environment", "271807003", "Eruption of skin"),
    (SNOMED, "256277009", "Grass pollen", "environment", "267036007", "Dyspnea"),
)
NO_ALLERGY: Final = (SNOMED, "716186003", "No known allergy")
# SNOMED CT and ICD-10-PCS code, the latter empty where there is none; what is taken out is so once.
SURGERY: Final = (
    ("80146002", "0DTJ4ZZ", "Excision of appendix"),
    ("38102005", "0FT44ZZ", "Cholecystectomy"),
)
EXAMINATIONS: Final = (
    ("73761001", "0DJD8ZZ", "Colonoscopy"),
    ("29303009", "4A02X4Z", "Electrocardiographic procedure"),
    ("399208008", "BW03ZZZ", "Plain X-ray of chest"),
    ("40701008", "B24BZZZ", "Echocardiography"),
    ("127783003", "", "Spirometry"),
)
PANELS: Final = (
    LaboratoryPanel(
        "24321-2",
        "Basic metabolic 2000 panel - Serum or Plasma",
        (
            Measure("2345-7", "Glucose [Mass/volume] in Serum or Plasma", "mg/dL", 70, 99),
            Measure("2951-2", "Sodium [Moles/volume] in Serum or Plasma", "mmol/L", 136, 145),
            Measure("2823-3", "Potassium [Moles/volume] in Serum or Plasma", "mmol/L", 3.5, 5.1, 1),
            Measure("2075-0", "Chloride [Moles/volume] in Serum or Plasma", "mmol/L", 98, 107),
            Measure("2028-9", "Carbon dioxide, total [Moles/volume] in Serum or Plasma", "mmol/L", 22, 29),
            Measure("3094-0", "Urea nitrogen [Mass/volume] in Serum or Plasma", "mg/dL", 7, 20),
            Measure("2160-0", "Creatinine [Mass/volume] in Serum or Plasma", "mg/dL", 0.6, 1.3, 2),
            Measure("17861-6", "Calcium [Mass/volume] in Serum or Plasma", "mg/dL", 8.6, 10.3, 1),
        ),
    ),
    LaboratoryPanel(
        "58410-2",
        "CBC panel - Blood by Automated count",
        (
            Measure("6690-2", "Leukocytes [#/volume] in Blood by Automated count", "10*3/uL", 4.5, 11.0, 1),
            Measure("789-8", "Erythrocytes [#/volume] in Blood by Automated count", "10*6/uL", 4.2, 5.9, 2),
            Measure("718-7", "Hemoglobin [Mass/volume] in Blood", "g/dL", 12.0, 17.5, 1),
            Measure("4544-3", "Hematocrit [Volume Fraction] of Blood by Automated count", "%", 36, 50, 1),
            Measure("777-3", "Platelets [#/volume] in Blood by Automated count", "10*3/uL", 150, 400),
        ),
    ),
    LaboratoryPanel(
        "24331-1",
        "Lipid 1996 panel - Serum or Plasma",
        (
            Measure("2093-3", "Cholesterol [Mass/volume] in Serum or Plasma", "mg/dL", 120, 200),
            Measure("2571-8", "Triglyceride [Mass/volume] in Serum or Plasma", "mg/dL", 40, 150),
            Measure("2085-9", "Cholesterol in HDL [Mass/volume] in Serum or Plasma", "mg/dL", 40, 90),
        ),
    ),
    LaboratoryPanel(
        "4548-4",
        "Hemoglobin A1c/Hemoglobin.total in Blood",
        (Measure("4548-4", "Hemoglobin A1c/Hemoglobin.total in Blood", "%", 4.0, 5.6, 1),),
    ),
    LaboratoryPanel(
        "3016-3",
        "Thyrotropin [Units/volume] in Serum or Plasma",
        (Measure("3016-3", "Thyrotropin [Units/volume] in Serum or Plasma", "m[IU]/L", 0.4, 4.0, 2),),
    ),
)
VITAL_SIGNS: Final = (
    Measure("8867-4", "Heart rate", "/min", 60, 100),
    Measure("9279-1", "Respiratory rate", "/min", 12, 20),
    Measure("8310-5", "Body temperature", "Cel", 36.1, 37.2, 1),
    Measure("2708-6", "Oxygen saturation in Arterial blood", "%", 95, 100),
)
VITAL_SIGNS_PANEL: Final = (
    "85353-1",
    "Vital signs, weight, height, head circumference, oxygen saturation and BMI panel",
)
BLOOD_PRESSURE: Final = ("85354-9", "Blood pressure panel with all children optional")
SYSTOLIC: Final = Measure("8480-6", "Systolic blood pressure", "mm[Hg]", 90, 130)
DIASTOLIC: Final = Measure("8462-4", "Diastolic blood pressure", "mm[Hg]", 60, 85)
HEIGHT: Final = ("8302-2", "Body height", "cm")
WEIGHT: Final = ("29463-7", "Body weight", "kg")
BODY_MASS_INDEX: Final = ("39156-5", "Body mass index (BMI) [Ratio]", "kg/m2")
# CVX code and text, and from which to below which age in years it is given.
VACCINES: Final = (
    ("08", "Hep B, adolescent or pediatric", 0, 20),
    ("20", "DTaP", 0, 7),
    ("10", "IPV", 0, 18),
    ("03", "MMR", 1, 60),
    ("21", "varicella", 1, 60),
    ("140", "Influenza, seasonal, injectable, preservative free", 1, 150),
    ("115", "Tdap", 11, 150),
    ("33", "pneumococcal polysaccharide PPV23", 65, 150),
    ("187", "zoster recombinant", 50, 150),
)
SMOKING: Final = (
    ("266919005", "Never smoked tobacco"),
    ("8517006", "Ex-smoker"),
    ("449868002", "Smokes tobacco daily"),
)
RACES: Final = (("2106-3", "White"), ("2054-5", "Black or African American"), ("2028-9", "Asian"))
ETHNICITIES: Final = (("2186-5", "Not Hispanic or Latino"), ("2135-2", "Hispanic or Latino"))
LANGUAGES: Final = (("en", "English"), ("en", "English"), ("es", "Spanish"), ("zh", "Chinese"))
# Code of v3-RoleCode, its text, and sex.
RELATIVES: Final = (("MTH", "mother", "female"), ("FTH", "father", "male"), ("SIS", "sister", "female"))
NOTES: Final = (("11506-3", "Progress note"), ("34117-2", "History and physical note"))
DISCHARGE_NOTE: Final = ("18842-5", "Discharge summary")
# Class, its text, SNOMED CT type and text, and the longest stay in hours.
ENCOUNTERS: Final = (
    ("AMB", "ambulatory", "185349003", "Encounter for check up", 1),
    ("AMB", "ambulatory", "185345009", "Encounter for symptom", 1),
    ("EMER", "emergency", "50849002", "Emergency room admission", 9),
    ("IMP", "inpatient encounter", "32485007", "Hospital admission", 140),
)
# What is aimed at: text, the measure, its unit, and the bound below which it is to come.
GOALS: Final = (
    ("Systolic blood pressure below 130", "8480-6", "Systolic blood pressure", "mm[Hg]", 130),
    ("Hemoglobin A1c below 7 %", "4548-4", "Hemoglobin A1c/Hemoglobin.total in Blood", "%", 7),
    ("Body weight below 80 kg", "29463-7", "Body weight", "kg", 80),
)
ACTIVITIES: Final = (("229065009", "Exercise therapy"), ("226234005", "Healthy diet"))
